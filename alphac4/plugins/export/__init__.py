"""Networks in forms that run without this package: Kaggle's ConnectX, ONNX, the web, the Hugging Face hub."""

from alphac4.commands import register_command

register_command(
    "export",
    group="Export",
    summary="export a network for Kaggle, ONNX, the web or the hub",
    target="alphac4.plugins.export.command:ExportCommand",
)
