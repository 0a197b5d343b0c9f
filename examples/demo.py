"""An agent answers a question that needs a database, a note and a calculation. Exits 1 when the answer is wrong."""

import sys
from functools import partial

from demo_data import loyalty_discount
from demo_tools import TOOLS

from sureact import Engine, ReAct, SureactError
from sureact.agent.events import CallDelta, CallStarted, Event, ObservationReady, ThoughtDelta

MODEL = "qwen2.5-coder-1.5b-instruct"
CUSTOMER = "Alba"
QUESTION = f"""What is the total price of all orders of the customer {CUSTOMER}, and how many euros is the loyalty \
discount that our notes give to {CUSTOMER}?"""


def show(begun: set[int], event: Event) -> None:
    """Print thoughts and calls as they are decoded, and observations when they are there."""
    match event:
        case ThoughtDelta(step_index=index, text=text) if index not in begun:
            begun.add(index)
            print(f"Thought: {text.lstrip()}", end="", flush=True)
        case ThoughtDelta(text=text) | CallDelta(text=text):
            print(text, end="", flush=True)
        case CallStarted(step_index=index, tool_name=name):
            print(f"[step {index + 1} runs {name}]")
        case ObservationReady(observation=observation):
            print(f"Observation: {observation}\n", flush=True)
        case _:
            pass


def main() -> int:
    """Run the agent, print its answer and the speed, and check the answer against the data."""
    try:
        print(f"Loading {MODEL} ...", flush=True)
        with Engine(MODEL) as engine:
            signature = "question: str -> discount_in_euros: float"
            agent = ReAct(signature, TOOLS, lm=engine, max_iters=10, on_event=partial(show, set[int]()))
            print(f"Question: {QUESTION}\n")
            prediction = agent(question=QUESTION)
    except SureactError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    usage, expected = prediction.usage, loyalty_discount(CUSTOMER)
    print(f"Answer: {prediction.discount_in_euros:.2f} euros ({prediction.reasoning})\n")
    print(f"{usage.completion_tokens} tokens generated, {usage.tokens_per_s:.1f} per second while decoding")
    print(f"{usage.cached_tokens} of {usage.prompt_tokens} prompt tokens reused from the cache")
    print(f"{usage.seconds:.1f} seconds, of which {usage.prefill_s:.1f} reading and {usage.decode_s:.1f} decoding")
    is_right = abs(prediction.discount_in_euros - expected) < 0.01
    print(f"{'Right' if is_right else 'WRONG'}: the data says {expected:.2f} euros.")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
