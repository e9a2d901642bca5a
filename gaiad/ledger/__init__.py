"""What happened and what is vouched for: packets sent to models, the audit in its hash chain, the signed identity."""
