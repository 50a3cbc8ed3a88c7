using System;
using System.Collections.Generic;

namespace Playmeter
{
    /// <summary>A leaderboard.</summary>
    public sealed class Board
    {
        private readonly Api api;
        private readonly string path;

        internal Board(Api api, string table)
        {
            this.api = api;
            path = "/v1/boards/" + Api.Segment(table) + "/scores";
        }

        /// <summary>
        /// Submits a score, signed by the player's session. <paramref name="details"/> may have <c>subscore</c>, <c>fields</c>,
        /// <c>source</c>, <c>code</c>. <paramref name="done"/> gets the response, or null and the error.
        /// </summary>
        public void Submit(
            double score,
            Dictionary<string, object> details,
            Action<Dictionary<string, object>, PlaymeterError> done)
        {
            var value = new Dictionary<string, object> { { "player", api.Player } };
            PlaymeterClient.Put(value, "name", api.Name);
            foreach (var detail in details ?? new Dictionary<string, object>())
            {
                value[detail.Key] = detail.Value;
            }
            value["score"] = score;
            api.Write("POST", path, value, (answer, error) => done(answer == null ? null : answer.Data, error));
        }

        /// <summary>Gets a page: <c>window</c>, <c>page</c>, <c>per_page</c>, <c>around</c> and more, as in the HTTP API.</summary>
        public void List(Dictionary<string, string> query, Action<Dictionary<string, object>, PlaymeterError> done)
        {
            api.Get(path, query, (answer, error) => done(answer == null ? null : answer.Data, error));
        }
    }
}
