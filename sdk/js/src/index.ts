/** The public API of the Playmeter client. */
export { Playmeter } from './playmeter.js'
export { EventsLost, PlaymeterError, Refused, Unreachable } from './errors.js'
export type { Board } from './boards.js'
export type { Achievements } from './achievements.js'
export type { Feed } from './feed.js'
export type { Levels } from './levels.js'
export type { GameVars } from './vars.js'
export type * from './types.js'
