"""What feeds a decoding step back to the next one, for one row and for many."""

import torch
from benchmarks.harness import BLOCK_SIZE, VOCAB_SIZE, device, print_machine, report

from sureact_kernels.advance_rows import DecodeRows, advance_rows

MAX_BLOCKS, MAX_STOP_LEN, STOPS_PER_ROW = 256, 8, 8
BYTES_PER_ROW = 8 * 7 + 4 * (6 + 2 * MAX_STOP_LEN + STOPS_PER_ROW * MAX_STOP_LEN)


def rows_of(num_rows: int) -> DecodeRows:
    """Return rows that run, at position 0, with stops that no token ends."""

    def ids(*shape: int, value: int = 0, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.full(shape, value, dtype=dtype, device=device())

    firsts = torch.arange(0, num_rows * STOPS_PER_ROW, STOPS_PER_ROW, dtype=torch.int32, device=device())
    return DecodeRows(
        token_ids=ids(num_rows, dtype=torch.int64),
        positions=ids(num_rows, dtype=torch.int64),
        context_lens=ids(num_rows, value=1),
        slots=ids(num_rows, dtype=torch.int64),
        is_running=ids(num_rows, value=1),
        block_tables=ids(num_rows, MAX_BLOCKS, dtype=torch.int64),
        recent=ids(num_rows, MAX_STOP_LEN),
        num_generated=ids(num_rows),
        stops=ids(num_rows * STOPS_PER_ROW, MAX_STOP_LEN, value=1),
        stops_of_row=torch.stack((firsts, firsts + STOPS_PER_ROW), dim=1),
        seen=ids(num_rows, -(-VOCAB_SIZE // 32)),
        results=ids(2, num_rows, dtype=torch.int64),
    )


def main() -> None:
    """Check that a row moves on, then time the op."""
    print_machine()
    for num_rows in (1, 32):
        rows = rows_of(num_rows)
        picked = torch.full((num_rows,), 5, dtype=torch.int64, device=device())
        advance_rows(picked, rows, block_size=BLOCK_SIZE, dummy_slot=0)
        assert rows.positions.tolist() == [1] * num_rows

        def run(rows: DecodeRows = rows, picked: torch.Tensor = picked) -> None:
            # Always the same step, or a row would run out of its block table.
            rows.positions.zero_()
            advance_rows(picked, rows, block_size=BLOCK_SIZE, dummy_slot=0)

        shape = f"{num_rows} rows, {STOPS_PER_ROW} stops of {MAX_STOP_LEN} each"
        report("advance_rows", shape, run, num_bytes=num_rows * BYTES_PER_ROW)


if __name__ == "__main__":
    main()
