"""What happened, kept in order: which Cognition Packets were sent to which model, and what came back."""
