// Bundles the scripts of the dashboard with the libraries that they use: `make assets`. The bundles are committed, so
// that a build of penstock needs no Node.js. The file bundles.json records the inputs and the outputs, and
// TestBundlesAreCurrent compares them with the files.
import {createHash} from "node:crypto";
import {readFileSync, readdirSync, writeFileSync} from "node:fs";
import {build} from "esbuild";

process.chdir(import.meta.dirname);

const assets = "../assets/";
const sources = ["editor.js", "charts.js", "charts.css"];
const inputs = ["package.json", "package-lock.json", "build.js", ...sources];

const {metafile} = await build({
  entryPoints: sources,
  outdir: assets,
  bundle: true,
  minify: true,
  charset: "utf8",
  format: "iife",
  target: "es2022",
  legalComments: "none",
  metafile: true,
});

// The licenses of all packages with code in a bundle. The MIT license asks for them in every copy.
const packages = new Set(Object.keys(metafile.inputs).map((path) => /^node_modules\/((@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
const licenses = [...packages].sort().map((name) => {
  const dir = `node_modules/${name}/`;
  const {version} = JSON.parse(readFileSync(dir + "package.json", "utf8"));
  const file = readdirSync(dir).find((f) => /^licen[cs]e/i.test(f));
  return `${name} ${version}\n\n${readFileSync(dir + file, "utf8").trim()}\n`;
});
writeFileSync(assets + "licenses.txt", licenses.join("\n---\n\n"));

const sum = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");
const sums = (dir, names) => Object.fromEntries([...names].sort().map((name) => [name, sum(dir + name)]));
const record = {inputs: sums("", inputs), outputs: sums(assets, [...sources, "licenses.txt"])};
writeFileSync("bundles.json", JSON.stringify(record, null, 2) + "\n");
