"""Models that ONNX's strict inference refuses."""


def bad_models():
    return []
