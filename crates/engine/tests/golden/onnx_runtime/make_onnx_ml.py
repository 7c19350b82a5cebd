"""Writes cases of the operators of ai.onnx.ml, and of small models that converters wrote: `ml_*.onnx`.

    python make_onnx_ml.py

Run with onnx 1.23.2, onnxruntime 1.31.1, scikit-learn 1.9.1, skl2onnx 1.20.0, onnxmltools 1.16.0, lightgbm 4.7.0 and
xgboost 3.2.0. `cases.py` describes the files.
"""

import os

import numpy as np
from cases import model_of, write

HERE = os.path.dirname(os.path.abspath(__file__))
ML = "ai.onnx.ml"
count = {}


def case(kind, inputs, outputs=1, version=1, domain=ML, **attributes):
    count[kind] = count.get(kind, 0) + 1
    inputs = inputs if isinstance(inputs, list) else [inputs]
    model, feed = model_of(kind, inputs, domain=domain, outputs=outputs, version=version, **attributes)
    write(HERE, "ml_%s_%d" % (kind.lower(), count[kind]), model, feed)


def features(rng):
    x = rng.normal(size=(4, 3)).astype(np.float32)
    case("Scaler", x, offset=[0.5, -1.0, 2.0], scale=[2.0, 0.25, 1.5])
    case("Scaler", (x * 9).astype(np.int64), offset=[0.5], scale=[0.3])
    case("Scaler", x.astype(np.float64), offset=[0.1, 0.2, 0.3], scale=[3.0, 2.0, 1.0])
    for norm in ("MAX", "L1", "L2"):
        rows = x.copy()
        rows[2] = 0
        case("Normalizer", rows, norm=norm)
    case("Normalizer", np.array([3, -4, 12], np.int64), norm="L2")
    missing = x.copy()
    missing[0, 1] = missing[3, 2] = np.nan
    case("Imputer", missing, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    case("Imputer", missing, imputed_value_floats=[7.0], replaced_value_float=float("nan"))
    case("Imputer", np.array([[1, -1], [-1, 5]], np.int64), imputed_value_int64s=[8, 9], replaced_value_int64=-1)
    case("Binarizer", x, threshold=0.25)
    case("ArrayFeatureExtractor", [x, np.array([[2, 0]], np.int64)])
    case("FeatureVectorizer", [x, (x[:, :2] * 5).astype(np.float32)], inputdimensions=[3, 2])
    case("FeatureVectorizer", [np.arange(8).reshape(2, 4), np.arange(2).reshape(2, 1)], inputdimensions=[3, 2])


def labels():
    words, numbers = np.array([["a", "c"], ["b", "z"]], object), np.array([3, 1, 9], np.int64)
    case("OneHotEncoder", words, cats_strings=["a", "b", "c"])
    case("OneHotEncoder", numbers, cats_int64s=[1, 2, 3], zeros=1)
    case("OneHotEncoder", np.array([[1.5], [3.0]], np.float32), cats_int64s=[1, 2, 3])
    case("CategoryMapper", words, cats_strings=["a", "b", "c"], cats_int64s=[5, 6, 7], default_int64=-9)
    case("CategoryMapper", numbers, cats_strings=["a", "b"], cats_int64s=[1, 3])
    case("LabelEncoder", words, classes_strings=["b", "a"], default_int64=4)
    case("LabelEncoder", numbers, classes_strings=["p", "q", "r", "s"], default_string="?")
    case("LabelEncoder", words, version=2, keys_strings=["a", "b"], values_floats=[0.5, 1.5])
    case("LabelEncoder", np.array([1.5, np.nan, 0], np.float32), version=4, keys_floats=[float("nan"), 1.5],
         values_strings=["none", "some"], default_string="other")
    case("LabelEncoder", numbers, version=4, keys_int64s=[1, 3], values_int64s=[10, 30], default_int64=0)
    case("DictVectorizer", [{"a": 1.5, "z": 2.0, "b": -1.0}], string_vocabulary=["b", "c", "a"])
    case("DictVectorizer", [{3: 1.5, 1: 2.0}], int64_vocabulary=[1, 2, 3])
    case("CastMap", [{5: 2.5, 1: -1.25}], cast_to="TO_FLOAT")
    case("CastMap", [{4: 2.5, 1: -1.25}], cast_to="TO_STRING", map_form="SPARSE", max_map=6)
    case("CastMap", [{2: 7.5, 0: -3.5}], cast_to="TO_INT64", map_form="SPARSE", max_map=4)
    scores = np.array([[0.25, 0.75], [0.5, 0.125]], np.float32)
    case("ZipMap", scores, classlabels_strings=["no", "yes"])
    case("ZipMap", scores, classlabels_int64s=[3, 8])


def strings():
    """Operators of ONNX on strings, as pipelines of text columns use them."""
    from onnx import TensorProto
    words = np.array([["a", "b", "c"], ["d", "e", "f"]], object)
    own = dict(domain="", opset=21)
    case("Cast", np.array([1.5, -0.0001234, 3e20, 0, np.nan, np.inf, -np.inf, 1e-7, 123456789, 0.1], np.float32),
         to=TensorProto.STRING, **own)
    case("Cast", np.array([0.1, -2.5e-300, 1e16, 3.0]), to=TensorProto.STRING, **own)
    case("Cast", np.array([3, -7, 2**40]), to=TensorProto.STRING, **own)
    case("Cast", np.array([True, False]), to=TensorProto.STRING, **own)
    case("Cast", np.array(["1.5", "-2e3", "NaN", "INF"], object), to=TensorProto.FLOAT, **own)
    case("Cast", np.array(["15", "-2"], object), to=TensorProto.INT64, **own)
    case("Gather", [words, np.array([2, 0])], axis=1, **own)
    case("Reshape", [words, np.array([3, -1])], **own)
    case("Concat", [words, words[:1].copy()], axis=0, **own)
    case("Transpose", words, perm=[1, 0], **own)
    case("Split", [words, np.array([1, 2])], outputs=2, axis=1, **own)
    case("Where", [np.array([[True], [False]]), words, np.array("z", object)], **own)
    case("ArrayFeatureExtractor", [words, np.array([2, 0])])


def linear(rng):
    x = rng.normal(size=(5, 3)).astype(np.float32)
    weights = lambda classes: dict(coefficients=rng.normal(size=3 * classes).tolist(),
                                   intercepts=rng.normal(size=classes).tolist())
    case("LinearRegressor", x, **weights(1))
    case("LinearRegressor", x, targets=2, post_transform="LOGISTIC", **weights(2))
    case("LinearRegressor", x, targets=3, post_transform="SOFTMAX", **weights(3))
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        case("LinearClassifier", x, outputs=2, classlabels_ints=[4, 5, 6], post_transform=transform, **weights(3))
        case("LinearClassifier", x, outputs=2, classlabels_strings=["n", "p"], post_transform=transform, **weights(1))
    case("LinearClassifier", (x * 4).astype(np.int64), outputs=2, classlabels_ints=[1, 0], post_transform="LOGISTIC",
         **weights(2))


def machines(rng):
    x = rng.normal(size=(5, 3)).astype(np.float32)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        case("SVMRegressor", x, kernel_type=kernel, kernel_params=[0.3, 0.2, 3.0], n_supports=4,
             support_vectors=rng.normal(size=12).tolist(), coefficients=rng.normal(size=4).tolist(), rho=[0.25])
    plain = dict(kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])
    case("SVMRegressor", x, **plain, n_supports=0, coefficients=rng.normal(size=3).tolist(), rho=[0.5],
         one_class=1)
    for classes in (2, 3, 4):
        pairs = classes * (classes - 1) // 2
        common = dict(kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0], vectors_per_class=[2] * classes,
                      support_vectors=rng.normal(size=6 * classes).tolist(),
                      coefficients=rng.normal(size=2 * classes * (classes - 1)).tolist(),
                      rho=rng.normal(size=pairs).tolist())
        case("SVMClassifier", x, outputs=2, classlabels_ints=list(range(classes)), **common)
        case("SVMClassifier", x, outputs=2, classlabels_strings=list("abcd"[:classes]),
             prob_a=rng.normal(size=pairs).tolist(), prob_b=rng.normal(size=pairs).tolist(), **common)
    case("SVMClassifier", x, outputs=2, **plain, classlabels_ints=[0, 1, 2],
         coefficients=rng.normal(size=9).tolist(), rho=[0.1], post_transform="LOGISTIC")


def tree_nodes(modes=("BRANCH_LEQ", "BRANCH_LT")):
    """Two trees of five nodes: a branch, a leaf, a branch, and two leaves."""
    first, second = modes
    return dict(
        nodes_treeids=[0] * 5 + [1] * 5, nodes_nodeids=[0, 1, 2, 3, 4] * 2,
        nodes_modes=[first, "LEAF", second, "LEAF", "LEAF"] * 2, nodes_featureids=[0, 0, 1, 0, 0, 2, 0, 0, 0, 0],
        nodes_values=[0.1, 0, -0.2, 0, 0, 0.3, 0, 0.5, 0, 0], nodes_truenodeids=[1, 0, 3, 0, 0] * 2,
        nodes_falsenodeids=[2, 0, 4, 0, 0] * 2)


def leaves(prefix, ids, weights):
    return {prefix + "_treeids": [0, 0, 0, 1, 1, 1], prefix + "_nodeids": [1, 3, 4] * 2,
            prefix + "_ids": ids, prefix + "_weights": weights}


def trees(rng):
    x = rng.normal(size=(6, 3)).astype(np.float32)
    x[5, 0] = np.nan
    weights = [0.5, -0.25, 0.75, 1.0, 0.125, -0.5]
    one = leaves("target", [0] * 6, weights)
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        case("TreeEnsembleRegressor", x, n_targets=1, aggregate_function=aggregate, base_values=[0.5],
             **tree_nodes(), **one)
    two = leaves("target", [0, 1, 0, 1, 0, 1], weights)
    missing = dict(nodes_missing_value_tracks_true=[1, 0, 1, 0, 0] * 2)
    case("TreeEnsembleRegressor", x, n_targets=2, post_transform="SOFTMAX", base_values=[0.1, 0.2],
         **tree_nodes(("BRANCH_GT", "BRANCH_GTE")), **two, **missing)
    doubles = tree_nodes()
    del doubles["nodes_values"]
    from onnx import numpy_helper
    case("TreeEnsembleRegressor", x.astype(np.float64), version=3, n_targets=1, **doubles,
         nodes_values_as_tensor=numpy_helper.from_array(np.array(tree_nodes()["nodes_values"])),
         **{key: value for key, value in one.items() if key != "target_weights"},
         target_weights_as_tensor=numpy_helper.from_array(np.array(weights)))
    for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
        case("TreeEnsembleClassifier", x, outputs=2, classlabels_int64s=[3, 7], post_transform=transform,
             **tree_nodes(), **leaves("class", [1] * 6, weights))
        case("TreeEnsembleClassifier", x, outputs=2, classlabels_strings=["a", "b", "c"], post_transform=transform,
             base_values=[0.1, 0.0, -0.1], **tree_nodes(), **leaves("class", [0, 1, 2, 0, 1, 2], weights))
    case("TreeEnsembleClassifier", x, outputs=2, classlabels_strings=["no", "yes"],
         **tree_nodes(), **leaves("class", [0] * 6, np.abs(weights).tolist()))
    case("TreeEnsembleClassifier", x, outputs=2, classlabels_int64s=[0, 1], post_transform="LOGISTIC",
         base_values=[0.25], **tree_nodes(), **leaves("class", [0] * 6, weights))
    case("TreeEnsembleClassifier", x, outputs=2, classlabels_int64s=[0, 1],
         **tree_nodes(), **leaves("class", [0, 1, 0, 1, 0, 1], np.abs(weights).tolist()))


def converted():
    """Models of scikit-learn, LightGBM and XGBoost."""
    import lightgbm
    import xgboost
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as Floats
    from skl2onnx import to_onnx
    from sklearn import (calibration, cluster, compose, ensemble, linear_model, naive_bayes, neighbors, neural_network,
                         pipeline, preprocessing, svm, tree)
    rng = np.random.default_rng(8)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    y = x @ [1.0, -2.0, 0.5, 0.0] + 0.1
    two, three = (y > 0).astype(np.int64), np.digitize(y, [-1, 1]).astype(np.int64)
    texts = np.array(["low", "mid", "high"])[three]
    scaled = lambda last: pipeline.make_pipeline(preprocessing.StandardScaler(), last)
    models = {
        "logistic": (scaled(linear_model.LogisticRegression()), two),
        "logistic_texts": (scaled(linear_model.LogisticRegression()), texts),
        "ridge": (pipeline.make_pipeline(preprocessing.MinMaxScaler(), linear_model.Ridge()), y),
        "svc": (svm.SVC(probability=True, random_state=0), texts),
        "svc_two": (svm.SVC(kernel="poly"), two),
        "svr": (svm.SVR(), y),
        "linear_svc": (svm.LinearSVC(), three),
        "one_class": (svm.OneClassSVM(), y),
        "tree": (tree.DecisionTreeClassifier(max_depth=3), two),
        "forest": (ensemble.RandomForestClassifier(4, max_depth=3, random_state=0), two),
        "forest_texts": (ensemble.RandomForestClassifier(4, max_depth=3, random_state=0), texts),
        "forest_regressor": (ensemble.RandomForestRegressor(4, max_depth=3, random_state=0), y),
        "boosted": (ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0), two),
        "boosted_three": (ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0), three),
        "bayes": (naive_bayes.GaussianNB(), three),
        "neighbors": (neighbors.KNeighborsClassifier(3), two),
        "clusters": (cluster.KMeans(3, n_init=2, random_state=0), y),
        "perceptron": (neural_network.MLPClassifier((5,), max_iter=50, random_state=0), three),
        "calibrated": (calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2), two),
    }
    for name, (model, target) in models.items():
        raw = {id(model): {"raw_scores": True}} if name == "svc_two" else None
        try:
            converted = to_onnx(model.fit(x, target), x[:1], options=raw, target_opset={"": 18, ML: 3})
            write(HERE, "ml_sklearn_" + name, converted, {"X": x[:8]})
        except Exception as error:
            print(name, str(error)[:200])
    table = np.array([["a", "u"], ["b", "v"], ["c", "u"]], object)
    columns = compose.ColumnTransformer([("hot", preprocessing.OneHotEncoder(), [0]),
                                         ("order", preprocessing.OrdinalEncoder(), [1])])
    from skl2onnx.common.data_types import StringTensorType
    converted = to_onnx(columns.fit(table), initial_types=[("X", StringTensorType([None, 2]))],
                        target_opset={"": 18, ML: 3})
    write(HERE, "ml_sklearn_columns", converted, {"X": table})
    types = [("X", Floats([None, 4]))]
    small = dict(n_estimators=4, max_depth=3)
    for name, model, target in (
            ("two", lightgbm.LGBMClassifier(**small, verbose=-1), two),
            ("three", lightgbm.LGBMClassifier(**small, verbose=-1), texts),
            ("regressor", lightgbm.LGBMRegressor(**small, verbose=-1), y)):
        missing = x.copy()
        missing[::7, 1] = np.nan
        converted = convert_lightgbm(model.fit(missing, target), initial_types=types, target_opset=15)
        write(HERE, "ml_lightgbm_" + name, converted, {"X": missing[:8]})
    for name, model, target in (("two", xgboost.XGBClassifier(**small), two),
                                ("three", xgboost.XGBClassifier(**small), three),
                                ("regressor", xgboost.XGBRegressor(**small), y)):
        try:
            converted = convert_xgboost(model.fit(x, target), initial_types=types, target_opset=15)
            write(HERE, "ml_xgboost_" + name, converted, {"X": x[:8]})
        except Exception as error:
            print(name, str(error)[:200])


if __name__ == "__main__":
    features(np.random.default_rng(1))
    labels()
    strings()
    linear(np.random.default_rng(2))
    machines(np.random.default_rng(3))
    trees(np.random.default_rng(4))
    converted()
