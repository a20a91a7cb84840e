# SPDX-License-Identifier: Apache-2.0
"""What else goes on on this machine: where tests of real time may say that it was not the program."""
import os


def is_crowded():
    """Twice as much is ready to run as there are cores for. On any other machine nothing is tried twice."""
    return os.getloadavg()[0] > 2 * (os.cpu_count() or 1)


def crowding():
    """How many times longer than on an idle machine things take here: what is ready to run, per core; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
