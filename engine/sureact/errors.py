"""Every error a user of sureact can meet, one class per thing the caller can do about it.

SureactError
├── ConfigError              an option has a value that is not allowed
│   └── TemplateVariableError    a variable of a chat template holds a control token; carries `name`
├── ModelNotFoundError       the name is not in the catalogue, not a folder, not on disk
├── PullError                a model could not be fetched
│   ├── IndexUnreachableError    no package index or hub answered
│   ├── ChecksumError            what arrived is not what was published
│   └── DiskSpaceError           the disk is too small for the model
├── UnsupportedModelError    the architecture or one of its settings is not served
├── CheckpointError          the files of a model are damaged or do not fit its config
├── OutOfMemoryError         weights or KV cache do not fit
├── PromptTooLongError       prompt + max_tokens exceed the context
│   └── ContextWindowExceededError   the same, inside a module; nothing can be dropped to make room
├── SessionError             a closed session, or an operation its state does not allow
├── ConstraintError          base of all that concerns constrained decoding
│   ├── UnsupportedSchemaError   a keyword cannot be enforced; carries `keyword` and `pointer`
│   ├── ConstraintCompileError   a regex, grammar or schema is malformed or unsatisfiable
│   └── ConstraintStateError     a token was illegal, or no token is legal
├── RequestAbortedError      the request was cancelled
├── WorkerLostError          a process that holds a part of the model is gone; open a new engine
├── ListenError              a server cannot listen at its host and port
├── OutputTruncatedError     `max_tokens` ended a constrained text inside it
├── SignatureError           a signature string or class cannot be read
├── ToolError                base of all that concerns tools
│   ├── ToolDefinitionError      a tool cannot be described (name, annotations, file)
│   └── ToolExecutionError       a tool raised; agents turn it into an observation
│       └── ToolTimeoutError         a tool gave no result within its `timeout_s`
├── ModuleStateError         the saved state of a module cannot be read or written, or does not fit
├── TraceError               a trace file cannot be read or written
└── InternalError            a promise of sureact was broken: please report it

Catch `SureactError` for everything. Each class that replaces a builtin inherits it too.
"""


class SureactError(Exception):
    """Base of every error raised on purpose by sureact."""


class ConfigError(SureactError, ValueError):
    """An option has a value that is not allowed."""


class TemplateVariableError(ConfigError):
    """A variable of a chat template holds a control token, which would become control where it is written.

    Args:
        message: which variable, and what to do.
        name: of the variable.
    """

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class ModelNotFoundError(SureactError, LookupError):
    """A model name is neither in the catalogue nor a folder nor on this disk."""


class PullError(SureactError, OSError):
    """A model could not be fetched."""


class IndexUnreachableError(PullError):
    """No package index or hub answered."""


class ChecksumError(PullError):
    """A fetched file differs from what its publisher lists."""


class DiskSpaceError(PullError):
    """The disk is too small for a model."""


class UnsupportedModelError(SureactError, ValueError):
    """An architecture, or one of its settings, is not served."""


class CheckpointError(SureactError, ValueError):
    """The files of a model are damaged, incomplete or contradict its config."""


class OutOfMemoryError(SureactError, MemoryError):
    """Weights, KV cache or a forward pass do not fit into memory."""


class PromptTooLongError(SureactError, ValueError):
    """Prompt and `max_tokens` together exceed the context length."""


class ContextWindowExceededError(PromptTooLongError):
    """What a module has to say does not fit into the context, and nothing can be dropped to make room."""


class SessionError(SureactError, RuntimeError):
    """A session is closed, busy, or cannot do what was asked in its state."""


class ConstraintError(SureactError):
    """Base of the errors of constrained decoding."""


class UnsupportedSchemaError(ConstraintError, ValueError):
    """A JSON schema holds a keyword that cannot be enforced.

    Args:
        message: what was found, and what to do.
        keyword: the JSON-schema keyword, such as `uniqueItems`.
        pointer: JSON pointer (RFC 6901) to the keyword inside the schema, such as `/properties/a/uniqueItems`.
    """

    def __init__(self, message: str, *, keyword: str, pointer: str) -> None:
        super().__init__(message)
        self.keyword = keyword
        self.pointer = pointer


class ConstraintCompileError(ConstraintError, ValueError):
    """A regex, grammar, choice or schema is malformed or can never be satisfied."""


class ConstraintStateError(ConstraintError, RuntimeError):
    """A token was not legal at this point, or no token is."""


class RequestAbortedError(SureactError):
    """The request was cancelled before it finished."""


class WorkerLostError(SureactError, RuntimeError):
    """A process that holds a part of the model ended, or did not answer; the engine is closed."""


class ListenError(SureactError, OSError):
    """A server cannot listen at the host and port it was given."""


class OutputTruncatedError(SureactError, RuntimeError):
    """`max_tokens` ended a constrained text before it was complete."""


class SignatureError(SureactError, ValueError):
    """A signature cannot be read, or its fields clash with reserved names."""


class ToolError(SureactError):
    """Base of the errors that concern tools."""


class ToolDefinitionError(ToolError, ValueError):
    """A tool cannot be described: its name, annotations, schema or file."""


class ToolExecutionError(ToolError, RuntimeError):
    """A tool raised, or its arguments were refused."""


class ToolTimeoutError(ToolExecutionError, TimeoutError):
    """A tool gave no result within its `timeout_s`."""


class ModuleStateError(SureactError, ValueError):
    """The saved state of a module cannot be read or written, or belongs to another module."""


class TraceError(SureactError, OSError):
    """A trace file cannot be read or written."""


class InternalError(SureactError, RuntimeError):
    """A promise of sureact was broken. Please report it with the output of `sureact doctor`."""
