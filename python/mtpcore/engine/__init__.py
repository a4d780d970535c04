"""The engine: one core, one worker, one tokenizer, and the loop that drives them."""
