"""Read the replies of models: their labels, their JSON, tool calls in text, and answers while they stream."""
