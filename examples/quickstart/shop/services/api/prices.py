"""Prices of the shop, in cents."""


def total(prices, discount=0):
    """The sum of prices less a discount in percent, rounded down."""
    return sum(prices) * (100 - discount) // 100
