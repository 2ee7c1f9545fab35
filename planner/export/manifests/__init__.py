"""Kubernetes: LeaderWorkerSets, a Dynamo graph, values of the llm-d chart."""
