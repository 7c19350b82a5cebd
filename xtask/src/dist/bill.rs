//! The bill of materials: what a command contains, as CycloneDX 1.5.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::run::{Outcome, locked, output, root};

/// Returns the bill of the command for a target: each crate with its version, licence, checksum and dependencies.
pub(super) fn bill(target: &str, time: &str) -> Result<String, Outcome> {
    let mut cargo = locked("metadata");
    cargo.args(["--format-version", "1", "--filter-platform", target]).current_dir(root());
    let metadata = output(&mut cargo)?;
    let wrong = |what: &str| Outcome::Failed(format!("cargo metadata: {what}"));
    let metadata: Value =
        serde_json::from_slice(&metadata).map_err(|error| wrong(&error.to_string()))?;
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata, "packages").into_iter().map(|it| (text(&it, "id"), it)).collect();
    let needs: BTreeMap<String, BTreeSet<String>> = list(&metadata["resolve"], "nodes")
        .iter()
        .map(|node| {
            let is_linked = |needed: &Value| {
                list(needed, "dep_kinds").iter().any(|kind| kind["kind"].is_null())
            };
            let needed = list(node, "deps").into_iter().filter(is_linked);
            (text(node, "id"), needed.map(|it| text(&it, "pkg")).collect())
        })
        .collect();
    let own = packages.iter().find(|(_, package)| package["name"] == "lodstone-cli");
    let (own, _) = own.ok_or_else(|| wrong("it has no package `lodstone-cli`"))?;
    let (mut reached, mut open) = (BTreeSet::new(), vec![own.clone()]);
    while let Some(id) = open.pop() {
        if reached.insert(id.clone()) {
            open.extend(needs.get(&id).into_iter().flatten().cloned());
        }
    }
    let name = |id: &String| {
        let package = packages.get(id).unwrap_or(&Value::Null);
        format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
    };
    let component = |id: &String| {
        let package = packages.get(id).unwrap_or(&Value::Null);
        json!({
            "type": "library",
            "bom-ref": name(id),
            "name": package["name"],
            "version": package["version"],
            "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
            "purl": name(id),
        })
    };
    let dependencies = |id: &String| {
        let needed = needs.get(id).into_iter().flatten().map(name).collect::<Vec<_>>();
        json!({ "ref": name(id), "dependsOn": needed })
    };
    let mut command = component(own);
    command["type"] = json!("application");
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": command,
            "properties": [
                { "name": "target", "value": target },
                { "name": "commit time", "value": time },
            ],
        },
        "components": reached.iter().filter(|id| *id != own).map(component).collect::<Vec<_>>(),
        "dependencies": reached.iter().map(dependencies).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill).map_err(|error| wrong(&error.to_string()))? + "\n")
}
