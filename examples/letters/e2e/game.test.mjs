/** Tests of the game in a browser. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { skipIf } from '../../../compat/skip.mjs'
import {
  chooseServer,
  assertAccessible,
  withGame,
  playRun,
  readPuzzle,
  waitForPuzzle,
  screenshot,
  startBrowser,
} from './harness.mjs'

const SIZES = {
  phone: { width: 390, height: 844 },
  landscape: { width: 844, height: 390 },
  desktop: { width: 1440, height: 900 },
}

let browser
let server

before(async () => {
  ;[browser, server] = await Promise.all([startBrowser(), chooseServer()])
  await server.setVar('rounds', 2)
})

after(async () => {
  await browser?.close()
  server?.close()
})

for (const theme of ['light', 'dark']) {
  for (const [device, viewport] of Object.entries(SIZES)) {
    test(`every screen fits and is accessible: ${theme}, ${device}`, async () => {
      await withGame(browser, server, { theme, viewport, reducedMotion: true }, async (page) => {
        const check = async (name) => {
          await assertFits(page, viewport, name)
          await screenshot(page, `letters-${theme}-${device}-${name}`)
          await assertAccessible(page)
        }
        await check('home')
        await page.locator('.friend').click()
        await check('friends')
        await page.getByRole('button', { name: 'Done' }).click()
        await page.getByRole('button', { name: 'Play', exact: true }).click()
        const puzzle = await waitForPuzzle(page)
        await check('question')
        await page.keyboard.press(puzzle.choices.find((letter) => letter !== puzzle.missing))
        await check('wrong')
        await page.keyboard.press(puzzle.missing)
        await check('right')
        await playRun(page)
        await page.locator('.board .own').waitFor()
        await check('end')
        await page.getByRole('button', { name: 'Home' }).click()
        await page.getByRole('button', { name: 'Best players' }).click()
        await page.locator('.board .own').waitFor()
        await check('best')
      })
    })
  }
}

test('a run with touch input earns three stars per puzzle and a place in the top scores', async () => {
  await withGame(browser, server, {}, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    let puzzle
    for (let n = 0; n < 2; n++) {
      puzzle = await waitForPuzzle(page, puzzle)
      await page.getByRole('button', { name: puzzle.missing, exact: true }).click()
    }
    await page.getByRole('heading', { name: '6 stars. Well done, Brave Fox!' }).waitFor()
    const own = page.locator('.board .own')
    await own.waitFor()
    assert.match(await own.innerText(), /Brave Fox\s*6/)
    assert.deepEqual(await page.locator('.medals li').allInnerTexts(), [
      'First run',
      'All stars in a run',
    ])
  })
})

test('a wrong letter costs a star and after two the right one is highlighted', async () => {
  await withGame(browser, server, {}, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    const puzzle = await waitForPuzzle(page)
    const wrong = puzzle.choices.filter((letter) => letter !== puzzle.missing)
    for (const letter of wrong) await page.keyboard.press(letter)
    for (const letter of wrong) await page.keyboard.press(letter)
    assert.equal(await page.locator('.choice.wink').innerText(), puzzle.missing)
    assert.deepEqual(await readPuzzle(page), puzzle)
    await page.keyboard.press(puzzle.missing)
    await page.locator('.progress .stars-of > :only-child').waitFor()
  })
})

test('the voice reads the row and can be switched off', async () => {
  await withGame(browser, server, {}, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    const { row } = await waitForPuzzle(page)
    const words = row.map((letter) => (letter === '?' ? 'hmm?' : letter.toLowerCase()))
    assert.deepEqual(await page.evaluate(() => spoken), [...words, 'Which letter is missing?'])
    await page.getByRole('button', { name: 'Sound and voice' }).click()
    await page.getByRole('button', { name: 'Say it again' }).click()
    assert.equal(await page.evaluate(() => spoken.length), words.length + 1)
    await page.reload()
    assert.equal(
      await page.getByRole('button', { name: 'Sound and voice' }).getAttribute('aria-pressed'),
      'false',
    )
  })
})

test('the game can be played by keyboard', async () => {
  await withGame(browser, server, {}, async (page) => {
    await page.keyboard.press('Enter')
    const { choices } = await waitForPuzzle(page)
    const focused = () => page.evaluate(() => document.activeElement.textContent)
    await page.keyboard.press('ArrowRight')
    assert.equal(await focused(), choices[0])
    await page.keyboard.press('ArrowLeft')
    assert.equal(await focused(), choices.at(-1))
    await page.keyboard.press('Enter')
    await page.locator('.choice[aria-disabled]').first().waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Play', exact: true }).waitFor()
  })
})

test('a chosen friend gets a name and is kept after a reload', async () => {
  await withGame(browser, server, {}, async (page) => {
    await page.locator('.friend').click()
    await page.getByRole('button', { name: 'Owl', exact: true }).click()
    const name = await page.locator('.name.big').innerText()
    assert.match(name, /^\w+ Owl$/)
    await page.getByRole('button', { name: 'Change name' }).click()
    assert.notEqual(await page.locator('.name.big').innerText(), name)
    await page.reload()
    assert.match(await page.locator('.friend').innerText(), /Owl/)
  })
})

test('a changed variable applies to the sky at once and to the next puzzle', async () => {
  await withGame(browser, server, {}, async (page) => {
    const hue = () => page.evaluate(() => document.documentElement.style.getPropertyValue('--hue'))
    await server.setVar('hue', 300)
    await page.waitForFunction(
      () => document.documentElement.style.getPropertyValue('--hue') === '300',
      undefined,
      { timeout: 2_000 },
    )
    await server.setVar('hue', 'nonsense')
    await page.waitForFunction(
      () => document.documentElement.style.getPropertyValue('--hue') === '0',
      undefined,
      { timeout: 2_000 },
    )
    await server.setVar('choices', 5)
    await server.setVar('hue', 225)
    await page.waitForFunction(
      () => document.documentElement.style.getPropertyValue('--hue') === '225',
      undefined,
      { timeout: 2_000 },
    )
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    assert.equal((await waitForPuzzle(page)).choices.length, 5)
    await server.setVar('choices', 3)
    assert.equal(await hue(), '225')
  })
})

test('the game works without a server', async () => {
  await withGame(browser, server, { offline: true, reducedMotion: true }, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    assert.equal(await playRun(page), 6)
    await page.getByRole('heading', { name: '18 stars. Well done, Brave Fox!' }).waitFor()
  })
})

test('with reduced motion nothing is animated', async () => {
  await withGame(browser, server, { reducedMotion: true }, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    const { missing } = await waitForPuzzle(page)
    await page.keyboard.press(missing)
    await page.locator('.found').waitFor()
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0)
    const isEmpty = await page
      .locator('canvas')
      .evaluate(
        (canvas) =>
          canvas.toDataURL() ===
          Object.assign(document.createElement('canvas'), {
            width: canvas.width,
            height: canvas.height,
          }).toDataURL(),
      )
    assert.ok(isEmpty, 'confetti is visible')
  })
})

test('the events of a game are tracked in order', async (t) => {
  const skipped = skipIf(!server.events, 'mock-only', 'only the mock can list the events of a player')
  if (skipped) return t.skip(skipped)
  await withGame(browser, server, {}, async (page) => {
    const player = await page.evaluate(() =>
      JSON.parse(Object.entries(localStorage).find(([name]) => name.endsWith(':player'))[1]),
    )
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    await playRun(page, 1)
    await page.goto('about:blank')
    const round = ['$level start', 'answer', '$level retry', 'answer', '$level win']
    const expected = ['$session_start', '$view', '$play', ...round, ...round, 'run_end', '$session_end']
    for (const end = Date.now() + 5_000; Date.now() < end;) {
      if ((await server.events(player)).length === expected.length) break
      await new Promise((done) => setTimeout(done, 50))
    }
    assert.deepEqual(await server.events(player), expected)
  })
})

/** Asserts that a screen needs no scrolling, that nothing is cut off and that targets are large enough. */
async function assertFits(page, { width, height }, name) {
  const size = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    document.documentElement.scrollHeight,
  ])
  assert.equal(size[0], width, name)
  assert.ok(size[1] <= height, `${name} is ${size[1]} high`)
  for (const button of await page.locator('main button').all()) {
    const { x, y, width: wide, height: high } = await button.boundingBox()
    assert.ok(x >= 0 && y >= 0 && x + wide <= width && y + high <= height, `${name}: a button is cut off`)
    assert.ok(wide >= 44 && high >= 44, `${name}: a button is too small`)
  }
}
