"""Megatron-core's order of token data, sample for sample: `DataLoader(datasets, tokens=Tokens(4096, order=Order(...)))`."""

from stepahead._megatron_order import Order

__all__ = ["Order"]
