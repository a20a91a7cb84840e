# SPDX-License-Identifier: Apache-2.0
"""unittest.main() for scripts under ctest: a case that did not run is no pass.

    if __name__ == "__main__":
        unittest_run.main(verbosity=1)

Exit code 0 when every case ran and passed, 1 when one failed, 77 when none failed and one was skipped; its reason is printed.
"""
import sys
import unittest


def main(**options):
    result = unittest.main(exit=False, **options).result
    for case, reason in result.skipped:
        print(f"skipped: {case}: {reason}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.skipped or not result.testsRun else 0)
