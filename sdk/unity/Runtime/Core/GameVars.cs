using System;
using System.Collections.Generic;

namespace Playmeter
{
    /// <summary>The game's variables: the defaults, then the last values from the server.</summary>
    public sealed class GameVars
    {
        private readonly Api api;
        private readonly PlaymeterOptions options;
        private Dictionary<string, object> values = new Dictionary<string, object>();
        private string etag;
        /// <summary>Whose values they are: another player may have others.</summary>
        private string player;

        internal GameVars(Api api, PlaymeterOptions options)
        {
            this.api = api;
            this.options = options;
        }

        /// <summary>Returns the value of the server, or the default, or null. See <see cref="Json"/> for the types.</summary>
        public object Get(string name)
        {
            object value;
            if (!values.TryGetValue(name, out value))
            {
                options.Defaults.TryGetValue(name, out value);
            }
            return value;
        }

        /// <summary>Loads the variables once. <paramref name="done"/> gets false if that fails; the values then stay.</summary>
        public void Load(Action<bool> done = null)
        {
            var viewer = api.Player;
            var query = new Dictionary<string, string> { { "player", viewer } };
            if (options.Platform != null)
            {
                query["platform"] = options.Platform;
            }
            if (options.Version != null)
            {
                query["version"] = options.Version;
            }
            var headers = new Dictionary<string, string>();
            if (etag != null && player == viewer)
            {
                headers["If-None-Match"] = etag;
            }
            api.Send("GET", "/v1/vars", query, null, headers, (answer, error) =>
            {
                if (error == null && answer.Status == 200)
                {
                    values = answer.Data;
                    etag = answer.ETag;
                    player = viewer;
                }
                if (done != null)
                {
                    done(error == null);
                }
            });
        }
    }
}
