"""One child process kept alive from the daemon's side, and an answer for every request to it."""
