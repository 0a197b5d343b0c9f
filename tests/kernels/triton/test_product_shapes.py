import pytest

from sureact_kernels.triton.product_shapes import large_tile, product_shape


@pytest.mark.parametrize("bits", [32, 16, 8, 4])
@pytest.mark.parametrize("out_features", [1, 1024, 1025, 4096, 151_936])
@pytest.mark.parametrize("in_features", [1, 63, 256, 1000, 12_288])
def test_splits_are_whole_blocks_and_cover_the_columns(out_features: int, in_features: int, bits: int) -> None:
    shape = product_shape(out_features, in_features, bits)
    assert shape.split_size % shape.block_k == 0
    assert 0 < shape.split_size < in_features + 256
    assert shape.block_n % 64 == 0


def test_many_outputs_are_not_split() -> None:
    assert product_shape(151_936, 4096, 16).split_size == 4096
    assert product_shape(1024, 3072, 16).split_size < 3072


def test_tiles_are_powers_of_two() -> None:
    for bits in (32, 16, 8, 4):
        for is_gated in (False, True):
            tile = large_tile(bits, is_gated=is_gated)
            assert tile.block_m & (tile.block_m - 1) == 0
            assert tile.block_n % 64 == 0


def test_fp8_has_the_tile_of_int8_with_fewer_stages() -> None:
    for is_gated in (False, True):
        fp8, int8 = (large_tile(8, is_gated=is_gated, is_fp8=is_fp8) for is_fp8 in (True, False))
        assert fp8 == int8._replace(num_stages=2)
        assert int8.num_stages > 2
