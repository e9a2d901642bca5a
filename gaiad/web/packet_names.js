// Topics and days of packets, looked up in batches and cached.

import { post } from "./api.js";
import { tenant } from "./state.js";
import { day, firstLine } from "./words.js";

const known = new Map(); // "tenant id" -> {topic, day}, or null for an unknown packet
let asked = new Set();
let answer = null;

/** {topic, day} of a packet, or null; simultaneous lookups share a request. */
export async function packetName(packetId) {
  const key = `${tenant()} ${packetId}`;
  if (!known.has(key)) {
    asked.add(packetId);
    answer ??= Promise.resolve().then(lookUp);
    await answer;
  }
  return known.get(key) ?? null;
}

async function lookUp() {
  const ids = [...asked];
  asked = new Set();
  answer = null;
  const { packets } = await post("/packets/list", { tenant: tenant(), filters: { packet_ids: ids }, limit: 500 });
  for (const id of ids) known.set(`${tenant()} ${id}`, null);
  for (const packet of packets) known.set(`${tenant()} ${packet.packet_id}`, { topic: packet.topic || firstLine(packet.summary, 60), day: day(packet.timestamp) });
}
