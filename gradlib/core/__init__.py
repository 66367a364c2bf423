"""The tape: tensors, nodes and their sequence numbers, modes, op declarations, views and versions, the backward walk."""
