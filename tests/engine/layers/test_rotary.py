import torch

from sureact.layers.rotary import RotaryTable

INV_FREQ = torch.tensor([1.0, 0.5, 0.1])


def test_angles_are_position_times_frequency_and_both_functions_are_scaled() -> None:
    cos, sin = RotaryTable(INV_FREQ, 1.5, 10).at(torch.tensor([0, 7]))
    torch.testing.assert_close(cos[1], (7 * INV_FREQ).cos().repeat(2) * 1.5)
    expected = (7 * INV_FREQ).sin() * 1.5
    torch.testing.assert_close(sin[1], torch.cat((-expected, expected)))
    assert cos[0].tolist() == [1.5] * 6


def test_a_longer_table_has_the_same_bits() -> None:
    positions = torch.arange(50)
    short, long = RotaryTable(INV_FREQ, 1.0, 50), RotaryTable(INV_FREQ, 1.0, 4001)
    assert all(torch.equal(a, b) for a, b in zip(short.at(positions), long.at(positions), strict=True))
