// Compares our digests of real webhook payloads with those of the npm package `canonicalize`.
//
//   node compare.mjs --install-dir DIR [--tool PATH] [--export FILE]
//
// --install-dir DIR  where the pinned npm packages are (or will be) installed; never the source tree
// --tool PATH        once_digest_tool; every payload's digest has to be the reference's
// --export FILE      writes the payloads as JSON lines {"id", "event", "body"}, `body` being the text
//                    that a sender would put on the wire, for demonstrations
//
// Exit status: 0 all equal, 1 some differ, 2 wrong usage, 77 the packages cannot be installed.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const kSkipped = 77;
const kMaxShown = 10;
const kSourceDir = dirname(fileURLToPath(import.meta.url));

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        'install-dir': { type: 'string' },
        tool: { type: 'string' },
        export: { type: 'string' },
      },
    });
    if (!values['install-dir']) throw new Error('--install-dir is missing');
    if (!values.tool && !values.export) throw new Error('--tool or --export is missing');
    return values;
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
}

// Installs exactly what package-lock.json pins, unless it is there already.
function install(dir) {
  const stamp = join(dir, 'installed-lock.json');
  const lock = readFileSync(join(kSourceDir, 'package-lock.json'), 'utf8');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return;
  mkdirSync(dir, { recursive: true });
  for (const file of ['package.json', 'package-lock.json']) {
    copyFileSync(join(kSourceDir, file), join(dir, file));
  }
  const npm = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: dir,
    encoding: 'utf8',
  });
  if (npm.status !== 0) {
    console.log('SKIPPED: npm cannot install the pinned packages:');
    console.log(npm.error ? npm.error.message : npm.stderr.trim());
    process.exit(kSkipped);
  }
  writeFileSync(stamp, lock);
}

// All examples of every GitHub version that the package covers.
function readPayloads(dir) {
  const root = join(dir, 'node_modules', '@octokit', 'webhooks-examples');
  const payloads = [];
  for (const server of readdirSync(root).sort()) {
    const index = join(root, server, 'index.json');
    if (!existsSync(index)) continue;
    for (const { name, examples } of JSON.parse(readFileSync(index, 'utf8'))) {
      examples.forEach((payload, number) => {
        payloads.push({ id: `${server}/${name}/${number}`, event: name, payload });
      });
    }
  }
  if (payloads.length === 0) throw new Error(`no payloads under ${root}`);
  return payloads;
}

function reverseMembers(value) {
  if (Array.isArray(value)) return value.map(reverseMembers);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, reverseMembers(member)]),
  );
}

// One document, three texts of one line each that have to have one digest.
function spellings(payload) {
  const text = JSON.stringify(payload);
  const spaced = JSON.stringify(reverseMembers(payload), null, 2).replaceAll('\n', '\t');
  // Escaping within strings changes nothing; outside of them there is nothing but ASCII.
  const escaped = text.replace(
    /[^\x00-\x7f]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return { text, spaced, escaped };
}

function digestsOf(tool, documents) {
  const run = spawnSync(tool, {
    input: documents.map((document) => `${document}\n`).join(''),
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (run.status !== 0) {
    throw new Error(`${tool} failed: ${run.error?.message ?? run.signal ?? run.stderr}`);
  }
  const digests = run.stdout.split('\n').slice(0, -1);
  if (digests.length !== documents.length) {
    throw new Error(`${digests.length} digests for ${documents.length} documents`);
  }
  return digests;
}

function compare(tool, payloads, canonicalize) {
  const cases = payloads.flatMap(({ id, payload }) => {
    const expected = createHash('sha256').update(canonicalize(payload), 'utf8').digest('hex');
    return Object.entries(spellings(payload)).map(([spelling, document]) => ({
      name: `${id} (${spelling})`,
      document,
      expected,
    }));
  });
  const digests = digestsOf(tool, cases.map(({ document }) => document));
  const wrong = cases
    .map(({ name, expected }, i) => ({ name, expected, actual: digests[i] }))
    .filter(({ expected, actual }) => expected !== actual);
  for (const { name, expected, actual } of wrong.slice(0, kMaxShown)) {
    console.log(`${name}: expected ${expected}, got ${actual}`);
  }
  const different = new Set(cases.map(({ expected }) => expected)).size;
  console.log(
    `${payloads.length} payloads (${different} different) in ${cases.length} spellings, ` +
      `${wrong.length} digests differ`,
  );
  return wrong.length === 0;
}

function writeExport(file, payloads) {
  const lines = payloads.map(({ id, event, payload }) =>
    JSON.stringify({ id, event, body: JSON.stringify(payload) }),
  );
  writeFileSync(file, `${lines.join('\n')}\n`);
  console.log(`${lines.length} payloads written to ${file}`);
}

const options = readOptions();
const installDir = resolve(options['install-dir']);
install(installDir);
const payloads = readPayloads(installDir);
const canonicalize = createRequire(join(installDir, 'package.json'))('canonicalize');
if (options.export) writeExport(options.export, payloads);
if (options.tool && !compare(resolve(options.tool), payloads, canonicalize)) process.exit(1);
