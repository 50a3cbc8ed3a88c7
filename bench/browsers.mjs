// Opens more and more browser pages on the Live page of a server, and says how fresh each of them is.
//
// usage: node browsers.mjs URL SIGN_IN_URL STEPS SECONDS        for instance ... 5,10,20 5
//
// For each step a line `{"pages": 10}` when so many are open, and after the seconds a line that also has how many say
// that they are connected, and the age of what each shows. Chromium is that of CHROMIUM, else /usr/bin/chromium.
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
let signedIn

for (const count of steps.split(',').map(Number)) {
  while (pages.length < count) pages.push(await open())
  say({ pages: count })
  await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1000))
  say({ pages: count, ...(await look()) })
}
await browser.close()

// Each in a context of its own, as if it were another person's: a browser opens only six connections to one server.
async function open() {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, storageState: signedIn })
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  await page.goto(signedIn ? url : signInUrl)
  await page.getByText('Connected').waitFor()
  signedIn ??= await context.storageState()
  return page
}

async function look() {
  const found = await Promise.all(pages.map((page) => page.evaluate(() => {
    const times = [...document.querySelectorAll('.as-of time')].map((time) => Date.parse(time.dateTime))
    return { age_ms: Date.now() - Math.max(...times), connected: document.body.innerText.includes('Connected') }
  })))
  const ages = found.map(({ age_ms }) => age_ms).sort((a, b) => a - b)
  return {
    connected: found.filter(({ connected }) => connected).length,
    age_ms_median: ages[ages.length >> 1],
    age_ms_max: ages.at(-1),
  }
}

function say(line) {
  console.log(JSON.stringify(line))
}
