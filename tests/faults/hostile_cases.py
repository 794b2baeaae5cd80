"""All hostile cases, in the order of their kinds."""

from __future__ import annotations

import hostile_beside
import hostile_chat
import hostile_configs
import hostile_conversations
import hostile_costs
import hostile_damage
import hostile_folders
import hostile_lists
import hostile_models
import hostile_outputs
import hostile_places
import hostile_questions
import hostile_reach
import hostile_reports
import hostile_surroundings
import hostile_tables
import hostile_text
import hostile_tokenizer_files
import hostile_tokenizers
import hostile_trainings
import hostile_web

PREPARING = (
    hostile_text,
    hostile_tables,
    hostile_places,
    hostile_configs,
    hostile_folders,
    hostile_costs,
    hostile_reach,
    hostile_surroundings,
    hostile_outputs,
    hostile_damage,
    hostile_web,
    hostile_chat,
    hostile_lists,
)
# Tried by `make soak` and `make fuzz` alone.
LEARNING = (
    hostile_tokenizer_files,
    hostile_tokenizers,
    hostile_models,
    hostile_trainings,
    hostile_questions,
    hostile_beside,
    hostile_conversations,
    hostile_reports,
)
CASES = [case for room in PREPARING for case in room.cases()]
LONG_CASES = [case for room in LEARNING for case in room.cases()]
