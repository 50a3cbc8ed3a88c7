/** The game as a child meets it. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  chooseServer,
  nothingIsHardToUse,
  playing,
  playRun,
  puzzle,
  question,
  shoot,
  startBrowser,
} from './world.mjs'

const SIZES = {
  phone: { width: 390, height: 844 },
  lying: { width: 844, height: 390 },
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
    test(`every screen is whole and easy to use: ${theme}, ${device}`, async () => {
      await playing(browser, server, { theme, viewport, calm: true }, async (page) => {
        const look = async (name) => {
          await fits(page, viewport, name)
          await shoot(page, `letters-${theme}-${device}-${name}`)
          await nothingIsHardToUse(page)
        }
        await look('home')
        await page.locator('.friend').click()
        await look('friends')
        await page.getByRole('button', { name: 'Done' }).click()
        await page.getByRole('button', { name: 'Play', exact: true }).click()
        const asked = await question(page)
        await look('question')
        await page.keyboard.press(asked.choices.find((letter) => letter !== asked.missing))
        await look('wrong')
        await page.keyboard.press(asked.missing)
        await look('right')
        await playRun(page)
        await page.locator('.board .own').waitFor()
        await look('end')
        await page.getByRole('button', { name: 'Home' }).click()
        await page.getByRole('button', { name: 'The best players' }).click()
        await page.locator('.board .own').waitFor()
        await look('best')
      })
    })
  }
}

test('a run by touch: three stars each, and a place on the board', async () => {
  await playing(browser, server, {}, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    let asked
    for (let n = 0; n < 2; n++) {
      asked = await question(page, asked)
      await page.getByRole('button', { name: asked.missing, exact: true }).click()
    }
    await page.getByRole('heading', { name: '6 stars. Well done, Brave Fox!' }).waitFor()
    const own = page.locator('.board .own')
    await own.waitFor()
    assert.match(await own.innerText(), /Brave Fox\s*6/)
    assert.deepEqual(await page.locator('.medals li').allInnerTexts(), [
      'The first run',
      'Every star of a run',
    ])
  })
})

test('a wrong letter costs a star and nothing else, and the right one begins to wink', async () => {
  await playing(browser, server, {}, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    const asked = await question(page)
    const wrong = asked.choices.filter((letter) => letter !== asked.missing)
    for (const letter of wrong) await page.keyboard.press(letter)
    for (const letter of wrong) await page.keyboard.press(letter)
    assert.equal(await page.locator('.choice.wink').innerText(), asked.missing)
    assert.deepEqual(await puzzle(page), asked)
    await page.keyboard.press(asked.missing)
    await page.locator('.progress .stars-of > :only-child').waitFor()
  })
})

test('the voice reads the row, and is silent when it is told to be', async () => {
  await playing(browser, server, {}, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    const { row } = await question(page)
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

test('the keyboard is enough: arrows, Enter and Escape', async () => {
  await playing(browser, server, {}, async (page) => {
    await page.keyboard.press('Enter')
    const { choices } = await question(page)
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

test('a friend is chosen by a face, gets a name, and is remembered', async () => {
  await playing(browser, server, {}, async (page) => {
    await page.locator('.friend').click()
    await page.getByRole('button', { name: 'Owl', exact: true }).click()
    const name = await page.locator('.name.big').innerText()
    assert.match(name, /^\w+ Owl$/)
    await page.getByRole('button', { name: 'Another name' }).click()
    assert.notEqual(await page.locator('.name.big').innerText(), name)
    await page.reload()
    assert.match(await page.locator('.friend').innerText(), /Owl/)
  })
})

test('a variable changes the sky of an open game at once, and the next question', async () => {
  await playing(browser, server, {}, async (page) => {
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
    assert.equal((await question(page)).choices.length, 5)
    await server.setVar('choices', 3)
    assert.equal(await hue(), '225')
  })
})

test('without a server it is the same game', async () => {
  await playing(browser, server, { alone: true, calm: true }, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    assert.equal(await playRun(page), 6)
    await page.getByRole('heading', { name: '18 stars. Well done, Brave Fox!' }).waitFor()
  })
})

test('for those who asked for less motion nothing moves', async () => {
  await playing(browser, server, { calm: true }, async (page) => {
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    const { missing } = await question(page)
    await page.keyboard.press(missing)
    await page.locator('.found').waitFor()
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0)
    const papers = await page
      .locator('canvas')
      .evaluate(
        (canvas) =>
          canvas.toDataURL() ===
          Object.assign(document.createElement('canvas'), {
            width: canvas.width,
            height: canvas.height,
          }).toDataURL(),
      )
    assert.ok(papers, 'paper is in the air')
  })
})

test('what is played is told, in order', async (t) => {
  if (!server.events) return t.skip('only the mock shows the events of one player')
  await playing(browser, server, {}, async (page) => {
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

/** Nothing has to be scrolled for, and nothing is cut off. */
async function fits(page, { width, height }, name) {
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
