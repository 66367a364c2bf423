"""Bridges to other libraries, and files of tensors."""

from gradlib.interop import hips as hips
from gradlib.interop.jax_bridge import from_jax as from_jax, jax_function as jax_function
from gradlib.interop.torch_bridge import from_torch as from_torch, torch_function as torch_function
