// Asks the daemon: JSON in and out, with the header that tells its page from a foreign one.

const HEADERS = { "X-Gaiad": "page", "Content-Type": "application/json" };

/** A request that the daemon refused; `status` is 0 when the daemon could not be reached. */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }

  get away() {
    return this.status === 0;
  }

  get signedOut() {
    return this.status === 401;
  }
}

/** The response's JSON. Throws Refused, or AbortError. */
async function ask(method, path, body, signal) {
  const response = await reach(path, { method, signal, headers: HEADERS, body: body && JSON.stringify(body) });
  return response.json();
}

export const get = (path, signal) => ask("GET", path, undefined, signal);
export const post = (path, body = {}, signal) => ask("POST", path, body, signal);

/** A successful response; any other is thrown as Refused. */
export async function reach(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "away", "gaiad is not answering");
  }
  if (response.ok) return response;
  throw await refusal(response);
}

async function refusal(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    body = { message: `HTTP ${response.status}` };
  }
  return new Refused(response.status, body.code ?? "", body.message ?? `HTTP ${response.status}`);
}
