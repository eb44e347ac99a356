// Arguments: FOLDER ENGINE BASE. Runs the suite in FOLDER against the URL BASE and prints each test with its suite, kind, dependencies and
// result. The caller decides what a result means. ENGINE is the folder of the suite's client below FOLDER.
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'

const [folder, engine, base] = process.argv.slice(2)
const load = file => import(pathToFileURL(join(folder, file)).href)

const { runTests, getResults } = await load(join(engine, 'client/runner.mjs'))
const suites = (await load('tests/index.mjs')).default
if (engine === '.') {
  // The npm package: its list lacks a suite, and its client needs a fetch function.
  suites.push((await load('tests/surrogate-control.mjs')).default)
  const fetch = (await load('../node-fetch/lib/index.js')).default
  await runTests(suites, fetch, false, base)
} else {
  await runTests(suites, false, base)
}
const results = getResults()
const tests = []
for (const suite of suites) {
  for (const test of suite.tests) {
    tests.push({
      suite: suite.id,
      id: test.id,
      name: test.name,
      kind: test.kind ?? 'required',
      depends_on: test.depends_on ?? [],
      passed: results[test.id] === true,
      failure: Array.isArray(results[test.id]) ? results[test.id] : null,
      ran: test.id in results
    })
  }
}
process.stdout.write(JSON.stringify(tests))
