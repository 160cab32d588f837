"""STUB until the triton branch is merged."""

from regard.backends.contract import Backend


class Triton(Backend):
    name = "triton"
    interpret = False

    def supports(self, scores, request, *, gradient=False, biases=False):
        return False


backend = Triton()
