"""Cosines and sines of the rotary embedding, computed once per position."""

import torch


class RotaryTable:
    """Angles for positions `0 .. max_model_len - 1`, shared by all layers."""

    __slots__ = ("_cos", "_sin", "max_model_len")

    def __init__(self, inv_freq: torch.Tensor, scaling: float, max_model_len: int) -> None:
        """Tabulate the angles.

        Args:
            inv_freq: `[head_dim / 2]`, float32, radians per position.
            scaling: factor of cosine and sine (YaRN's attention factor; 1 elsewhere).
            max_model_len: positions to tabulate.
        """
        self.max_model_len = max_model_len
        positions = torch.arange(max_model_len, dtype=torch.float32, device=inv_freq.device)
        angles = torch.outer(positions, inv_freq)
        # In float64, rounded once: the same bits whatever the length of the table.
        cos = (angles.double().cos() * scaling).float()
        sin = (angles.double().sin() * scaling).float()
        self._cos = torch.cat((cos, cos), dim=-1)
        self._sin = torch.cat((-sin, sin), dim=-1)

    def at(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines `[num_tokens, head_dim]`, float32, at int64 `positions`, as the op takes them."""
        return self._cos.index_select(0, positions), self._sin.index_select(0, positions)
