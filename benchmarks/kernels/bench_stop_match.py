"""Stop token sequences of many rows, checked on every step."""

import torch
from benchmarks.harness import VOCAB_SIZE, device, print_machine, report

from sureact_kernels.stop_match import stop_match

STOPS_PER_ROW, MAX_STOP_LEN = 8, 16


def main() -> None:
    """Check that each row finds its own stop, then time the op."""
    print_machine()
    for num_rows in (1, 32):
        num_stops = num_rows * STOPS_PER_ROW
        stops = torch.randint(VOCAB_SIZE, (num_stops, MAX_STOP_LEN), dtype=torch.int32, device=device())
        firsts = torch.arange(0, num_stops, STOPS_PER_ROW, dtype=torch.int32, device=device())
        bounds = torch.stack([firsts, firsts + STOPS_PER_ROW], 1)
        recent = stops[firsts + STOPS_PER_ROW - 1]
        lengths = torch.full((num_rows,), 1000, dtype=torch.int32, device=device())
        assert torch.equal(stop_match(recent, lengths, stops, bounds), firsts + STOPS_PER_ROW - 1)
        report(
            "stop_match",
            f"{num_rows} rows, {STOPS_PER_ROW} stops of {MAX_STOP_LEN} each",
            lambda case=(recent, lengths, stops, bounds): stop_match(*case),
            num_bytes=recent.nbytes + lengths.nbytes + stops.nbytes + bounds.nbytes + lengths.nbytes,
        )


if __name__ == "__main__":
    main()
