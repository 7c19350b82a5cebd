"""Gives symbols in the folder SYMBOLS random parameters, and records what MXNet 1.9.1 returns for random inputs."""

import mxnet as mx, numpy as np, glob, os, sys, warnings, json

warnings.filterwarnings("ignore")
rng = np.random.RandomState(0)
src = os.environ["SYMBOLS"]
special = {
    "bert_12_768_12": {
        "data0": ("ids", (2, 6)),
        "data1": ("ids2", (2, 6)),
        "data2": ("len", (2,)),
        "data3": ("ids", (2, 2)),
    },
    "distilbert_6_768_12": {"data0": ("ids", (2, 6)), "data1": ("len", (2,))},
    "roberta_12_768_12": {"data0": ("ids", (2, 6)), "data1": ("len", (2,))},
    "inceptionv3": (1, 3, 299, 299),
    "i3d_resnet50_v1_kinetics400": (1, 3, 8, 64, 64),
    "slowfast_4x16_resnet50_kinetics400": (1, 3, 36, 64, 64),
    "cifar_resnet20_v1": (2, 3, 32, 32),
    "nasnet_4_1056": (1, 3, 224, 224),
    "rnn": None,
    "gru": None,
    "ssd_300_vgg16_atrous_voc": (1, 3, 300, 300),
    "ssd_512_mobilenet1.0_voc": (1, 3, 512, 512),
    "ssd_512_resnet50_v1_voc": (1, 3, 512, 512),
    "yolo3_darknet53_voc": (1, 3, 64, 96),
    "monodepth2_resnet18_kitti_stereo_640x192": (1, 3, 192, 640),
    "psp_resnet50_ade": (1, 3, 480, 480),
    "fcn_resnet50_ade": (1, 3, 480, 480),
    "danet_resnet50_citys": (1, 3, 480, 480),
    "icnet_resnet50_citys": (1, 3, 480, 480),
    "faster_rcnn_fpn_resnet50_v1b_coco": (1, 3, 256, 256),
    "mask_rcnn_resnet50_v1b_coco": (1, 3, 256, 256),
    "center_net_resnet18_v1b_voc": (1, 3, 128, 128),
    "simple_pose_resnet18_v1b": (1, 3, 64, 64),
    "alpha_pose_resnet101_v1b_coco": (1, 3, 64, 64),
}
only = sys.argv[1:]
for f in sorted(glob.glob(src + "/*-symbol.json")):
    n = os.path.basename(f)[:-12]
    if only and n not in only:
        continue
    if os.path.exists(n + "-io.npz"):
        continue
    sym = mx.sym.load(f)
    g = json.load(open(f))
    args = sym.list_arguments()
    aux = sym.list_auxiliary_states()
    known = {
        x["name"] for x in g["nodes"] if x["op"] == "null" and "__shape__" in x.get("attrs", {})
    }
    ins = [a for a in args if a.startswith("data") and len(a) <= 6]
    sp = special.get(n, (1, 3, 224, 224))
    feed = {}
    try:
        if isinstance(sp, dict):
            for k, (kind, sh) in sp.items():
                if k not in ins:
                    continue
                feed[k] = {
                    "ids": rng.randint(0, 5, sh),
                    "ids2": rng.randint(0, 2, sh),
                    "len": rng.randint(2, 5, sh),
                }[kind].astype("f")
        elif n in ("rnn", "gru"):
            shp = {"data0": (5, 2, 4)}
            for a in ins[1:]:
                shp[a] = (1, 2, 8)
            for a in ins:
                feed[a] = rng.randn(*shp[a]).astype("f")
        else:
            for a in ins:
                feed[a] = rng.rand(*sp).astype("f")
        ash, osh, xsh = sym.infer_shape(**{k: v.shape for k, v in feed.items()})
        P = {}
        A = {}
        for a, s in zip(args, ash):
            if a in feed:
                continue
            if a.endswith("gamma") or a.endswith("alpha"):
                v = np.ones(s) + 0.1 * rng.randn(*s)
            elif a.endswith("weight"):
                v = rng.randn(*s) * np.sqrt(1.5 / max(1, np.prod(s[1:])))
                # Scores near 0 or 1 have ties, whose order differs.
                if any(part in a for part in ("predictor", "rpnhead", "rcnn1_dense")):
                    v *= 0.02
            else:
                v = rng.randn(*s) * 0.05
            P[a] = v.astype("f")
        for a, s in zip(aux, xsh):
            A[a] = (np.abs(rng.randn(*s)) * 0.1 + 1 if "var" in a else rng.randn(*s) * 0.05).astype(
                "f"
            )
        if os.environ.get("PARAMS_ONLY") is None:
            ex = sym.bind(
                mx.cpu(),
                {**{k: mx.nd.array(v) for k, v in {**P, **feed}.items()}},
                aux_states={k: mx.nd.array(v) for k, v in A.items()},
                grad_req="null",
            )
            outs = [o.asnumpy() for o in ex.forward(is_train=False)]
        mx.nd.save(
            n + "-0000.params",
            {
                **{"arg:" + k: mx.nd.array(v) for k, v in P.items()},
                **{"aux:" + k: mx.nd.array(v) for k, v in A.items()},
            },
        )
        os.system("cp %s ." % f)
        np.savez(
            n + "-io.npz",
            **{"in:" + k: v for k, v in feed.items()},
            **{"out:%d:%s" % (i, k): o for i, (k, o) in enumerate(zip(sym.list_outputs(), outs))}
        )
        print(
            "OK",
            n,
            [o.shape for o in outs][:4],
            [float(np.abs(o).max()) for o in outs][:3],
            flush=True,
        )
    except Exception as e:
        print("FAIL", n, ins, str(e).split("\n")[-1][:200], str(e)[:200], flush=True)
