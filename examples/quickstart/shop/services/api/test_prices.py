"""python3 -m unittest"""

import unittest

from prices import total


class Total(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(total([100, 250]), 350)

    def test_discount(self):
        self.assertEqual(total([100, 250], discount=10), 315)


if __name__ == "__main__":
    unittest.main()
