// Runs the suite of the folder it lies in against BASE and prints what it found: each test with its suite, kind and
// dependencies, and the suite's own result for it. Judging is done by who called.
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'

const [folder, base] = process.argv.slice(2)
const load = file => import(pathToFileURL(join(folder, file)).href)

const { runTests, getResults } = await load('http-cache-tests/client/runner.mjs')
const fetch = (await load('node-fetch/lib/index.js')).default
const suites = (await load('http-cache-tests/tests/index.mjs')).default
suites.push((await load('http-cache-tests/tests/surrogate-control.mjs')).default)

await runTests(suites, fetch, false, base)
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
      complaint: Array.isArray(results[test.id]) ? results[test.id] : null,
      ran: test.id in results
    })
  }
}
process.stdout.write(JSON.stringify(tests))
