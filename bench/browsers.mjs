// Opens a growing number of browser pages on a server's Live page and reports how current their data is.
//
// usage: node browsers.mjs URL SIGN_IN_URL STEPS SECONDS        for example ... 5,10,20 5
//
// For each step it prints a line such as `{"pages": 10}` when that many pages are open. After the given seconds it prints
// a line that also has the number of connected pages and the age of their data. CHROMIUM sets the path of Chromium,
// /usr/bin/chromium by default.
import { createRequire } from 'node:module'

const { chromium } = createRequire(new URL('../web/package.json', import.meta.url))('playwright-core')
const [url, signInUrl, steps, seconds] = process.argv.slice(2)

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--disable-background-timer-throttling',
    '--disable-renderer-backgrounding', '--disable-backgrounding-occluded-windows'],
})
const pages = []
let storageState

for (const count of steps.split(',').map(Number)) {
  while (pages.length < count) pages.push(await open())
  print({ pages: count })
  await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1000))
  print({ pages: count, ...(await measure()) })
}
await browser.close()

// Opens each page in a context of its own, like another user's: a browser opens only six connections to one server.
async function open() {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, storageState })
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  await page.goto(storageState ? url : signInUrl)
  await page.getByText('Connected').waitFor()
  storageState ??= await context.storageState()
  return page
}

async function measure() {
  const states = await Promise.all(pages.map((page) => page.evaluate(() => {
    const times = [...document.querySelectorAll('.as-of time')].map((time) => Date.parse(time.dateTime))
    return { age_ms: Date.now() - Math.max(...times), connected: document.body.innerText.includes('Connected') }
  })))
  const ages = states.map(({ age_ms }) => age_ms).sort((a, b) => a - b)
  return {
    connected: states.filter(({ connected }) => connected).length,
    age_ms_median: ages[ages.length >> 1],
    age_ms_max: ages.at(-1),
  }
}

function print(value) {
  console.log(JSON.stringify(value))
}
