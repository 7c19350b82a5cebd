use lodstone_model::{Model, Report};
use lodstone_schema::Findings;

pub(crate) fn from_onnx(_model: &Model, _report: &mut Report) -> Result<Model, Findings> {
    let mut findings = Findings::default();
    findings.add("the program", "not written yet");
    Err(findings)
}
