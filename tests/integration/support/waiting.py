"""Small helpers of tests: waiting for what another process will show, and the name of an answer's outcome."""

import time


def eventually(condition, seconds: float = 30, what: str = ""):
    """Returns condition()'s first true value. For states that nothing announces; never to give something time to happen."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or condition}"
        time.sleep(0.02)
    return value


def outcome(response) -> str:
    return response.WhichOneof("outcome")
