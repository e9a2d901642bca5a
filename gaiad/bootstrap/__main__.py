"""`python -I gaiad/bootstrap` sets up; with `lock` it resolves requirements.lock anew, other words going to uv; with
`vocabularies` it provides what only tests need.
"""

import sys
from pathlib import Path

# Python put this folder first on the path; the package is found from the root of the checkout.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from gaiad.bootstrap.children import SetupFailed
from gaiad.bootstrap.lock import write_lock
from gaiad.bootstrap.steps import set_up
from gaiad.bootstrap.vocabularies import provide_vocabularies


def main(arguments: list[str]) -> int:
    try:
        if arguments[:1] == ["lock"]:
            write_lock(arguments[1:])
        elif arguments[:1] == ["vocabularies"]:
            provide_vocabularies()
        else:
            set_up()
    except SetupFailed as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up stopped; run make again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
