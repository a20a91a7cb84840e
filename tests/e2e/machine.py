# SPDX-License-Identifier: Apache-2.0
"""What else goes on on this machine: where tests of real time may say that it was not the program."""
import os


def is_crowded():
    """Twice as much is ready to run as there are cores for. On any other machine nothing is tried twice."""
    return os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
