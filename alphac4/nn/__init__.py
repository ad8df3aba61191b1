"""The policy/value network and its batched inference."""

from alphac4.nn.evaluator import Evaluator, UniformEvaluator
from alphac4.nn.network import NetworkConfig, PolicyValueNetwork

__all__ = ["Evaluator", "NetworkConfig", "PolicyValueNetwork", "UniformEvaluator"]
