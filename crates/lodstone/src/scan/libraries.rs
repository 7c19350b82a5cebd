//! Libraries whose objects are often pickled, and what to share in place of the pickle.

/// The library of a module.
#[derive(Debug)]
pub(super) struct Library {
    /// The top-level module.
    module: &'static str,
    pub(super) name: &'static str,
    /// What holds the same model without code.
    pub(super) instead: &'static str,
}

/// Returns the library that a module belongs to.
pub(super) fn library(module: &str) -> Option<&'static Library> {
    let top = module.split('.').next()?;
    LIBRARIES.iter().find(|library| library.module == top)
}

const STATE: &str = "a `state_dict` has only tensors";
const ONNX: &str = "ONNX and skops have no code";

const fn row(module: &'static str, name: &'static str, instead: &'static str) -> Library {
    Library { module, name, instead }
}

static LIBRARIES: &[Library] = &[
    row("accelerate", "Accelerate", STATE),
    row("allennlp", "AllenNLP", STATE),
    row("apex", "Apex", STATE),
    row("catboost", "CatBoost", "its own format (`.cbm`) and ONNX have no code"),
    row("datasets", "Datasets", "Arrow and Parquet have no code"),
    row("deepspeed", "DeepSpeed", STATE),
    row("detectron2", "Detectron2", STATE),
    row("diffusers", "Diffusers", "safetensors has only tensors"),
    row("fairseq", "fairseq", STATE),
    row("fastai", "fastai", STATE),
    row("flair", "Flair", STATE),
    row("gensim", "Gensim", "the word2vec format has only vectors"),
    row("imblearn", "imbalanced-learn", ONNX),
    row("keras", "Keras", "a file of its weights has only arrays"),
    row("lightgbm", "LightGBM", "its own text format and ONNX have no code"),
    row("lightning", "Lightning", STATE),
    row("lightning_fabric", "Lightning", STATE),
    row("mmcv", "MMCV", STATE),
    row("mmengine", "MMEngine", STATE),
    row("monai", "MONAI", STATE),
    row("nemo", "NeMo", STATE),
    row("omegaconf", "OmegaConf", "`OmegaConf.to_container` returns plain values"),
    row("open_clip", "OpenCLIP", STATE),
    row("pandas", "pandas", "Parquet and CSV have no code"),
    row("peft", "PEFT", "safetensors has only tensors"),
    row("pytorch_lightning", "Lightning", STATE),
    row("scipy", "SciPy", "arrays in `.npz` have no code"),
    row("sentence_transformers", "Sentence Transformers", "safetensors has only tensors"),
    row("skl2onnx", "skl2onnx", ONNX),
    row("sklearn", "scikit-learn", ONNX),
    row("spacy", "spaCy", "`to_disk` writes data only"),
    row("speechbrain", "SpeechBrain", STATE),
    row("stable_baselines3", "Stable-Baselines3", STATE),
    row("tensorflow", "TensorFlow", "a file of its weights has only arrays"),
    row("timm", "timm", STATE),
    row("torch_geometric", "PyTorch Geometric", STATE),
    row("torchvision", "torchvision", STATE),
    row("transformers", "Transformers", "safetensors and JSON have no code"),
    row("trl", "TRL", "safetensors and JSON have no code"),
    row("ultralytics", "Ultralytics", STATE),
    row("xgboost", "XGBoost", "its own format (`.ubj`, JSON) and ONNX have no code"),
    row("yolov5", "YOLOv5", STATE),
];
