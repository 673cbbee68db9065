"""isoscope serve refuses a run that is not there and a port that it cannot have. `tests/report/test_serving.py` tests the server itself."""

import socket

from tests.cli.calling import isoscope


def test_a_run_that_is_not_there(tmp_path):
    isoscope("serve", tmp_path, tmp_path / "none", "--port", 0).refused(
        f"There is no run at {tmp_path / 'none'}; isoscope measure MODEL --out"
    )


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        isoscope("serve", tmp_path, "--port", port).refused(
            f"Port {port} cannot be used (", "choose another with --port, or 0 for any free one."
        )
