/** Tests of the pages that manage games, dimensions, achievements, feeds, surveys and data. The mock has no routes for them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { assertAccessible, assertLayout, isRealServer, request, screenshot, setup, VIEWPORTS, waitUntil, withPage } from './harness.mjs'
import { run } from './seed.mjs'
import { skipIf } from '../../compat/skip.mjs'

const [survey, achievement, player, friend] = [`fun-${run}`, `first-${run}`, `manage-ann-${run}`, `manage-bo-${run}`]

setup(async () => {
  if (!isRealServer) return
  await request('PUT', `/v1/achievements/${achievement}`, { name: 'First win', description: 'Win a game.', points: 10 })
  await request('PUT', `/v1/players/${player}/follows/${friend}`)
  await request('POST', '/v1/feed', { player: friend, name: 'بو', text: 'Found a key.', kind: 'find' })
  const questions = [
    { key: 'fun', kind: 'scale', text: 'How much fun is it?', min: 1, max: 5 },
    { key: 'best', kind: 'choice', text: 'Which letter is best?', options: ['A', 'B'] },
    { key: 'why', kind: 'text', text: 'Why?', max: 500 },
  ]
  await request('PUT', `/v1/surveys/${survey}`, { title: 'How do you like it?', questions })
  for (const [i, who] of [player, friend].entries()) {
    await request('POST', `/v1/surveys/${survey}/answers`, { player: who, answers: { fun: i + 3, best: 'A', why: 'So many letters' } })
  }
})

const PAGES = {
  games: ['/games', (page) => page.getByRole('rowheader', { name: /demo/ })],
  dimensions: ['/dimensions', (page) => page.getByRole('rowheader', { name: /^country/ })],
  achievements: ['/achievements', (page) => page.getByRole('rowheader', { name: /First win/ }).first()],
  feed: [`/feed?player=${player}`, (page) => page.getByText('Found a key.')],
  surveys: ['/surveys', (page) => page.getByRole('rowheader', { name: /How do you like it/ }).first()],
  'survey results': [`/surveys?survey=${survey}`, (page) => page.getByText('So many letters').first()],
  'survey form': [`/surveys?survey=${survey}&settings=1`, (page) => page.getByLabel('Options')],
  data: ['/data', (page) => page.getByText('No erasures yet')],
}

describe('management pages', { skip: skipIf(!isRealServer, 'server-only', 'the mock has no routes for them') }, () => {
  for (const [name, [path, loaded]] of Object.entries(PAGES)) {
    for (const [theme, device, viewport] of VIEWPORTS) {
      test(`the ${name} page fits and is accessible on a ${theme} ${device}`, async () => {
        await withPage(path, { theme, viewport }, async (page) => {
          await loaded(page).waitFor()
          await assertLayout(page, `${name.replace(' ', '-')}-${theme}-${device}`)
        })
      })
    }
  }

  test('a game is created, opened, renamed, archived and restored', async () => {
    const id = `word-game-${run}`
    await withPage('/games', {}, async (page) => {
      await page.getByRole('button', { name: 'Create game' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Display name').fill(`Word Game ${run}`)
      assert.equal(await dialog.getByLabel('ID', { exact: true }).inputValue(), id)
      await dialog.getByLabel('Time zone').fill('Europe/Paris')
      await assertAccessible(page)
      await screenshot(page, 'create-game')
      await dialog.getByRole('button', { name: 'Create game' }).click()
      const row = page.getByRole('row').filter({ hasText: id })
      await row.getByText('Europe/Paris').waitFor()
      await row.getByRole('button', { name: /^Rename/ }).click()
      await dialog.getByLabel('Display name').fill(`Letters ${run}`)
      await dialog.getByRole('button', { name: 'Rename game' }).click()
      await row.getByText(`Letters ${run}`, { exact: true }).first().waitFor()
      await row.getByRole('button', { name: /^Archive/ }).click()
      await dialog.getByRole('button', { name: 'Archive game' }).click()
      await row.getByText('Archived').waitFor()
      await page.getByLabel('Game', { exact: true }).selectOption({ label: `Letters ${run} (archived)` })
      await waitUntil(page, () => new URL(page.url()).searchParams.get('game') === id)
      await row.getByRole('button', { name: /^Restore/ }).click()
      await row.getByText('Archived').waitFor({ state: 'detached' })
    })
  })

  test('an invalid game shows the error at its field', async () => {
    await withPage('/games', { expected: [400, 409, 422] }, async (page) => {
      await page.getByRole('button', { name: 'Create game' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Display name').fill('Bad zone')
      await dialog.getByLabel('Time zone').fill('Mars/Olympus')
      await dialog.getByRole('button', { name: 'Create game' }).click()
      await waitUntil(page, async () => (await dialog.getByLabel('Time zone').getAttribute('aria-invalid')) === 'true')
    })
  })

  test('an achievement is created, granted and removed', async () => {
    const key = `made-${run}`
    await withPage('/achievements', {}, async (page) => {
      const dialog = page.getByRole('dialog')
      await page.getByRole('button', { name: 'Create achievement' }).click()
      await dialog.getByLabel('Display name').fill(`Alphabet ${run}`)
      await dialog.getByLabel('ID', { exact: true }).fill(key)
      await dialog.getByLabel('Points').fill('25')
      await dialog.getByRole('button', { name: 'Save achievement' }).click()
      const row = page.getByRole('row').filter({ hasText: key })
      await row.getByRole('cell', { name: '25', exact: true }).waitFor()
      for (const expected of ['has Alphabet', 'already has Alphabet']) {
        await row.getByRole('button', { name: /^Grant/ }).click()
        await dialog.getByLabel('Player', { exact: true }).fill(friend)
        await dialog.getByRole('button', { name: 'Grant achievement' }).click()
        await page.getByRole('status').filter({ hasText: expected }).waitFor()
      }
      await row.getByRole('button', { name: /^Remove/ }).click()
      await dialog.getByRole('button', { name: 'Remove achievement' }).click()
      await row.waitFor({ state: 'detached' })
    })
  })

  test('a post appears in the feed of a follower, with its name isolated', async () => {
    await withPage('/feed', {}, async (page) => {
      await page.getByText('No player selected').waitFor()
      await page.getByRole('search').getByLabel('Player', { exact: true }).fill(player)
      await page.getByRole('button', { name: 'Apply filters' }).click()
      await page.getByText('Found a key.').waitFor()
      assert.equal(await page.locator('b bdi').first().innerText(), 'بو')
      const form = page.getByRole('region', { name: 'Post to a feed' })
      await form.getByLabel('Player', { exact: true }).fill(friend)
      await form.getByLabel('Text').fill('<b>Opened</b> the chest.')
      await form.getByRole('button', { name: 'Post activity' }).click()
      await page.getByText('<b>Opened</b> the chest.').waitFor()
      await page.getByRole('link', { name: friend }).click()
      await page.getByRole('heading', { name: `Feed of ${friend}` }).waitFor()
    })
  })

  test('a survey is created with a choice, and its results are shown', async () => {
    const key = `new-${run}`
    await withPage('/surveys', {}, async (page) => {
      await page.getByRole('link', { name: 'Create survey' }).click()
      await page.getByLabel('Title').fill('Letters?')
      await page.getByLabel('ID', { exact: true }).first().fill(key)
      await page.getByLabel('Text').fill('Which one?')
      await page.getByLabel('Kind').selectOption('choice')
      await page.getByLabel('Options').fill('A\nB')
      await page.getByLabel('End').fill('soon')
      await page.getByRole('button', { name: 'Save survey' }).click()
      await page.getByText('Enter a date and a time').waitFor()
      await page.getByLabel('End').fill('2099-01-01')
      await page.getByRole('button', { name: 'Save survey' }).click()
      await page.getByRole('heading', { level: 1, name: 'Letters?' }).waitFor()
      await request('POST', `/v1/surveys/${key}/answers`, { player, answers: { q1: 'B' } })
      await page.getByText('1 player has answered').waitFor({ timeout: 10_000 })
      assert.equal((await request('GET', '/v1/surveys')).surveys.find((it) => it.key === key).ends_at.slice(0, 10), '2099-01-01')
      await page.getByRole('button', { name: 'Delete survey' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Delete survey' }).click()
      await page.getByRole('heading', { level: 1, name: 'Surveys' }).waitFor()
      assert.equal(await page.getByText(key).count(), 0)
    })
  })

  test('the data of a player is exported, and erased once the id is entered again', async () => {
    const gone = `gone-${run}`
    await request('PUT', `/v1/players/${gone}/follows/${friend}`)
    await withPage('/data', {}, async (page) => {
      await page.getByRole('button', { name: 'Export data' }).click()
      await page.getByText('Enter a player ID.').waitFor()
      await page.getByLabel('Player', { exact: true }).fill(gone)
      const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export data' }).click()])
      assert.equal(file.suggestedFilename(), `${gone}.json`)
      assert.match(readFileSync(await file.path(), 'utf8'), new RegExp(friend))
      await page.getByRole('button', { name: 'Erase player…' }).click()
      const dialog = page.getByRole('dialog')
      const confirm = dialog.getByRole('button', { name: 'Erase player' })
      await dialog.getByLabel('Player ID').fill('another')
      assert.equal(await confirm.isDisabled(), true)
      await dialog.getByLabel('Player ID').fill(gone)
      await confirm.click()
      await page.getByText('Hidden from every answer').waitFor()
      await page.reload()
      const receipt = new URL(page.url()).searchParams.get('receipt')
      await page.getByRole('link', { name: receipt }).waitFor()
      await page.getByText('Hidden from every answer').waitFor()
      assert.equal(await page.evaluate((gone) => JSON.stringify(localStorage).includes(gone), gone), false)
      assert.deepEqual((await request('GET', `/v1/players/${gone}/follows`)).follows, [])
    })
  })
})
