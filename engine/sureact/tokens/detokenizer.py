"""Token ids to text one by one, never splitting a character."""

import codecs

from sureact.tokens.vocabulary import Vocabulary


class Detokenizer:
    """Decodes the tokens of one text as they come; a character is given out when its last byte is there.

    The pieces concatenate to `bytes.decode(errors="replace")` of all bytes. Control tokens have no text.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._token_bytes = vocabulary.token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """Add a token; return the characters that are complete now, maybe none."""
        return self.push_bytes(self._token_bytes[token_id])

    def push_bytes(self, data: bytes) -> str:
        """Add bytes that are not a whole token, such as text held back from a stream."""
        return self._decoder.decode(data)

    def flush(self) -> str:
        """End the text: return U+FFFD for a character whose end never came, and start over."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
