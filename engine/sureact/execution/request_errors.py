"""What a request ends with when something raises while it runs."""

from sureact.errors import InternalError, OutOfMemoryError


def as_exception(error: BaseException) -> Exception:
    """Return what a request's reader gets for `error`.

    What is no `Exception`, such as `SystemExit` or a panic of a compiled library, must end one request, neither the
    engine nor its reader's process.
    """
    if isinstance(error, Exception):
        return error
    failed = InternalError(f"{type(error).__name__} was raised while the text was generated: {error}")
    failed.__cause__ = error
    return failed


def as_pass_error(error: BaseException) -> Exception:
    """Return what a request's reader gets for the error of a forward pass; lack of memory is told as such."""
    is_out_of_memory = isinstance(error, MemoryError) or "alloc" in str(error) or "out of memory" in str(error).lower()
    if not is_out_of_memory:
        return as_exception(error)
    failed = OutOfMemoryError(
        f"The forward pass ran out of memory ({error}). Lower prefill_chunk_len, kv_cache_gb or the prompt's length."
    )
    failed.__cause__ = error
    return failed
