/** The API calls of a game, and the expected responses. */
import assert from 'node:assert/strict'

const level = (name) => ({ name, playername: 'José', playerid: '0', data: 'this is the level data', fields: { rnd: 7 } })
const score = (changes) => ({ table: 'High Scores', playername: 'person1', points: 10000, highest: true, fields: { rnd: 7 }, ...changes })
const own = (points, more) => score({ table: 'own', playerid: 'test@games.example', points, allowduplicates: true, ...more })
const achieved = (number, playerid, playername, more = {}) => ({
  achievement: `Super Mega Achievement #${number}`,
  achievementkey: `secretkey${number === 1 ? '' : number}`,
  playerid,
  playername,
  fields: { rnd: 7 },
  ...more,
})

/** Section, call, arguments. `LEVEL` stands for the id of the first saved level. */
export const STEPS = [
  ['Newsletter', 'subscribe', [{ email: 'bo@games.example' }]],
  ['GameVars', 'load', []],
  ['GameVars', 'loadSingle', ['testvar1']],
  ['GeoIP', 'lookup', []],
  ['PlayerLevels', 'save', [level('the level 😀')]],
  ['PlayerLevels', 'save', [level('the level 😀')]],
  ['PlayerLevels', 'load', ['LEVEL']],
  ['PlayerLevels', 'list', [{ page: 1, perpage: 10, data: false, filters: { rnd: 7 } }]],
  ['PlayerLevels', 'list', [{ page: 1, perpage: 10, data: true, filters: { rnd: 7 } }]],
  ['PlayerLevels', 'rate', ['LEVEL', 70]],
  ['PlayerLevels', 'rate', ['LEVEL', 6]],
  ['PlayerLevels', 'rate', ['LEVEL', 7]],
  ['Leaderboards', 'save', [score({})]],
  ['Leaderboards', 'save', [score({ points: 9000 })]],
  ['Leaderboards', 'save', [score({ points: 11000 })]],
  ['Leaderboards', 'save', [score({ points: 20000, playername: 'Zoë ☃' })]],
  ['Leaderboards', 'save', [score({ points: 9000, allowduplicates: true })]],
  ['Leaderboards', 'list', [{ table: 'High Scores', highest: true, filters: { rnd: 7 } }]],
  ['Leaderboards', 'list', [{ table: 'High Scores', lowest: true, perpage: 2, filters: { rnd: 7 } }]],
  ['Leaderboards', 'save', [own(1000)]],
  ['Leaderboards', 'save', [own(3000)]],
  ['Leaderboards', 'save', [own(4000)]],
  ['Leaderboards', 'saveAndList', [own(2500, { filters: { rnd: 7 }, perpage: 2 })]],
  ['Achievements', 'save', [achieved(1, '1', 'ben')]],
  ['Achievements', 'save', [achieved(1, '2', 'michelle')]],
  ['Achievements', 'save', [achieved(2, '2', 'michelle')]],
  ['Achievements', 'save', [achieved(1, '1', 'ben')]],
  ['Achievements', 'save', [achieved(1, '1', 'ben', { overwrite: true })]],
  ['Achievements', 'save', [achieved(1, '1', 'ben', { achievementkey: 'wrong' })]],
  ['Achievements', 'list', [{ playerid: '1', friendslist: ['2', '3'] }]],
  ['Achievements', 'stream', [{ group: true, playerid: '1', friendslist: ['2', '3'] }]],
  ['Achievements', 'stream', [{ filters: { rnd: 7 } }]],
]

/** The expected success flag and error code of each call. */
const CODES = [
  [false, 600],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 405],
  [true, 0],
  [true, 0],
  [true, 0],
  [false, 401],
  [true, 0],
  [false, 402],
  [true, 0],
  [true, 209],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [true, 0],
  [false, 505],
  [true, 506],
  [false, 504],
  [true, 0],
  [true, 0],
  [true, 0],
]

/** Checks the response to each call. */
export function checkResponses(responses) {
  assert.deepEqual(
    responses.map(({ call, success, code }) => [call, success, code]),
    CODES.map(([success, code], at) => [`${STEPS[at][0]}.${STEPS[at][1]}`, success, code]),
  )
  const answer = (call, nth = 0) => responses.filter((response) => response.call === call)[nth].answer
  assert.equal(answer('GameVars.load')[0].testvar2, 'testvalue2')
  assert.deepEqual(answer('GameVars.load')[0].gamevars.testvar1, { value: 'testvalue1' })
  assert.deepEqual(answer('GameVars.loadSingle')[0].gamevars, { testvar1: { value: 'testvalue1' } })
  assert.ok('name' in answer('GeoIP.lookup')[0] && 'code' in answer('GeoIP.lookup')[0])
  const saved = answer('PlayerLevels.save')[0]
  assert.deepEqual([saved.name, saved.playername, saved.data], ['the level 😀', 'José', 'this is the level data'])
  assert.equal(answer('PlayerLevels.load')[0].data, saved.data)
  for (const [nth, data] of [undefined, saved.data].entries()) {
    const [levels, count] = answer('PlayerLevels.list', nth)
    assert.deepEqual([levels.length, count, levels[0].data], [1, 1, data])
  }
  const rows = ([scores, count]) => [count, scores.map(({ rank, playername, points }) => [rank, playername, points])]
  assert.deepEqual(rows(answer('Leaderboards.list')), [3, [[1, 'Zoë ☃', 20000], [2, 'person1', 11000], [3, 'person1', 9000]]])
  assert.deepEqual(rows(answer('Leaderboards.list', 1)), [3, [[1, 'person1', 9000], [2, 'person1', 11000]]])
  const page = answer('Leaderboards.saveAndList')
  assert.deepEqual(rows(page), [4, [[3, 'person1', 2500], [4, 'person1', 1000]]])
  assert.deepEqual(page[0].map(({ submitted }) => submitted), [true, undefined])
  const [list] = answer('Achievements.list')
  assert.deepEqual(
    list.map(({ player, friends }) => [player?.playername, friends?.map(({ playername }) => playername)]),
    [['ben', ['michelle']], [undefined, ['michelle']], [undefined, undefined]],
  )
  const [stream, count] = answer('Achievements.stream')
  assert.deepEqual([count, stream.map(({ playername, awards }) => [playername, awards])], [2, [['michelle', 2], ['ben', 1]]])
  const [everyone, grants] = answer('Achievements.stream', 1)
  assert.deepEqual([grants, everyone.map(({ playername }) => playername)], [3, ['michelle', 'michelle', 'ben']])
}
