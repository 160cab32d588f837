"""Boxes and arrows from a config."""

from types import SimpleNamespace

import pytest
from support.samples import CONFIG, parsed, texts

import regard
from regard import drawing


class TestArchitecture:
    def test_it_is_drawn_from_the_config(self):
        shown = " ".join(texts(drawing.architecture(CONFIG)))
        for said in ("encoder layer, 6 ×", "decoder layer, 4 ×", "8 heads of 64", "512 → 2,048 → 512", "512 → 32,000"):
            assert said in shown

    def test_the_stack_has_as_many_layers(self):
        shown = texts(drawing.architecture(CONFIG, "encoder", unfold=False))
        assert [text for text in shown if text.startswith("encoder")] == [f"encoder {n}" for n in range(6, 0, -1)]
        unfolded = texts(drawing.architecture(SimpleNamespace(**vars(CONFIG) | {"encoder_layers": 2}), "encoder"))
        assert unfolded.count("multi-head attention") == unfolded.count("feed-forward network") == 2

    @pytest.mark.parametrize("norm_first", [False, True])
    def test_layer_norms_stand_where_the_config_has_them(self, norm_first):
        config = SimpleNamespace(**vars(CONFIG) | {"norm_first": norm_first})
        shown = drawing.architecture(config)
        assert texts(shown).count("layer norm") == 5  # of two sublayers and of three
        layer = drawing.architecture(config, "layer")
        heights = {}
        for element in parsed(layer).iter("{http://www.w3.org/2000/svg}text"):
            heights.setdefault("".join(element.itertext()), []).append(float(element.get("y")))
        for norm, plus, box in zip(
            heights["layer norm"], heights["+"], heights["feed-forward network"] + heights["multi-head attention"],
            strict=True,
        ):  # fmt: skip
            assert (plus < box < norm) if norm_first else (norm < plus < box)
        assert ("precedes each sublayer" in layer.caption) is norm_first

    def test_part(self):
        with pytest.raises(regard.InputError, match="'layer', 'encoder', 'transformer'"):
            drawing.architecture(CONFIG, "decoder")
