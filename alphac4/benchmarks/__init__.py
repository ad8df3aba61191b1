"""How fast each part is: one module for each thing that is measured."""
