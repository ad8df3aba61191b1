"""Networks from elsewhere as players: ONNX files of any program, and networks of the Hugging Face hub."""

from typing import TYPE_CHECKING

from alphac4.arena.kinds import NetworkKind, network_form
from alphac4.arena.registry import register
from alphac4.storage.networks import register_scheme

if TYPE_CHECKING:
    from pathlib import Path

    from alphac4.arena.players import BuildOptions
    from alphac4.game import Board
    from alphac4.mcts.network_search import SupportsEvaluate


@register
class HubKind(NetworkKind):
    """A network of the Hugging Face hub."""

    forms = {
        "hf://OWNER/NAME@600": "a network from the Hugging Face hub (needs alphac4[hub]); hf://OWNER/NAME/FILE@600 "
        "uses another file of that repository than model.safetensors",
    }
    form = network_form("hf://[^@,]+")
    names = ()


@register
class OnnxKind(NetworkKind):
    """A network of an ONNX file."""

    forms = {
        "FILE.onnx@600": "an ONNX network, with the same limits and options: from `alphac4 export --onnx`, or any "
        "other that maps planes to a policy and a value (needs alphac4[onnx])",
    }
    form = network_form(r".+\.onnx")
    is_checkpoint = False
    names = ()
    rank = 2  # hf://OWNER/NAME/FILE.onnx also has the form of `HubKind`

    @property
    def board(self) -> "Board":
        """The network's board."""
        from alphac4.plugins.foreign.onnx import onnx_board

        return onnx_board(self.path)

    def evaluator(self, options: "BuildOptions") -> "SupportsEvaluate":
        from alphac4.plugins.foreign.onnx import OnnxEvaluator

        return OnnxEvaluator(self.path, options.threads)


def _hub_file(name: str) -> "Path":
    from alphac4.plugins.foreign.hub import hub_file

    return hub_file(name)


register_scheme("hf", _hub_file)
